//! Serial lines between nodes: at each end the shipped daemon carries IP by a pseudo-terminal (`[serial]`), and a channel's thread passes the
//! octets between the two at the line's pace.

use crate::LabError;
use crate::folder::Folder;
use crate::gateways::{daemon, tool};
use crate::program::{self, Ending, GLANCE, Program};
use crate::sockets::rest_until;
use crate::tools::{self, output};
use crate::topology::Wire;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use wavelane_base::Span;
use wavelane_channel::serial::{BITS_8N1, SerialDirection};
use wavelane_host::netns::Netns;
use wavelane_host::realtime;
use wavelane_run::{LineRaw, LineTally};
use wavelane_scenario::{Channel, ChannelKind, SerialChannel, SerialFraming};

/// Time limit for a line to carry packets: PPP negotiates first, at a second a packet by the slowest.
const READY_WITHIN: Span = Span::from_secs(20);
const REMEDY: &str = "build it (cargo build) or name it with WAVELANE and WAVELANED";
/// Slower lines than this the daemon refuses, and shorter packets.
const RATE_MIN: u64 = 300;
const MTU_MIN: u16 = 576;

/// A line's end.
struct End {
    program: Program,
    ns: Arc<Netns>,
    control: PathBuf,
}

/// The ends of every line of a scenario. Dropping them stops them.
#[derive(Default)]
pub(crate) struct Lines {
    ends: Vec<(String, [End; 2])>,
    folder: Option<Folder>,
}

/// What both ends of a line have counted.
pub(crate) struct Counted {
    channel: String,
    ends: [Status; 2],
}

/// Packets to the line, and from it, and frames that held none.
struct Status {
    sent: u64,
    sent_octets: u64,
    received: u64,
    bad: u64,
    dropped: u64,
}

/// Why the lab has no such line, if so.
pub(crate) fn refusal(channel: &SerialChannel, one_way: bool) -> Option<String> {
    let ways = [&channel.line.forward, &channel.line.reverse];
    let lossy = |way: &&SerialDirection| way.cable.loss != SerialDirection::default().cable.loss;
    let why = match () {
        () if one_way => "carries one way only, and a port has both",
        () if ways.iter().any(|way| port_rate(way) < RATE_MIN) => "is slower than the 300 bit/s of the shipped daemon",
        () if channel.mtu < MTU_MIN => "has packets shorter than the 576 octets of the shipped daemon",
        () if ways.iter().any(|way| lossy(way) || !way.cable.outages.is_empty()) => {
            "loses whole frames, and between ports there are octets: use noise"
        }
        () => return None,
    };
    Some(why.into())
}

/// What a port is set to: start and stop bits counted, at which octets leave as they do on the line.
fn port_rate(way: &SerialDirection) -> u64 {
    way.octet_rate().as_bps() * BITS_8N1 / 8
}

fn table(channel: &SerialChannel, wire: &Wire, end: usize, port: &str) -> String {
    let way = [&channel.line.forward, &channel.line.reverse][end];
    let (framing, vj) = match channel.framing {
        SerialFraming::Slip => ("slip", true),
        SerialFraming::Slip1998 => ("slip-1998", true),
        SerialFraming::Cslip => ("cslip", true),
        SerialFraming::Ppp => ("ppp", false),
        SerialFraming::PppVj => ("ppp", true),
        SerialFraming::Kiss => ("kiss", true),
    };
    let plain = if vj { "" } else { "compress = false\n" };
    format!(
        "[serial]\nname = \"{}\"\ndevice = \"{port}\"\nrate = \"{} bit/s\"\nframing = \"{framing}\"\nmtu = {}\n\
         addresses = [\"{}/30\"]\n{plain}",
        wire.interface,
        port_rate(way),
        channel.mtu,
        wire.addresses[end]
    )
}

/// What became of packets between `before` and `now`; `on_line` says how many octets each end has put on a line meanwhile.
pub(crate) fn since(now: &[Counted], before: &[Counted], on_line: impl Fn(&str) -> Option<[u64; 2]>) -> Vec<LineRaw> {
    let mut lines = Vec::new();
    for (now, before) in now.iter().zip(before) {
        let octets = on_line(&now.channel).unwrap_or_default();
        for (end, way) in ["forward", "reverse"].into_iter().enumerate() {
            let ([here, there], [here_before, there_before]) =
                [&now.ends, &before.ends].map(|ends| [&ends[end], &ends[1 - end]]).into();
            let (sent, full) = (here.sent - here_before.sent, here.dropped - here_before.dropped);
            let tally = LineTally {
                packets: sent + full,
                packet_octets: here.sent_octets - here_before.sent_octets,
                full,
                sent,
                sent_octets: octets[end],
                received: there.received - there_before.received,
                bad: there.bad - there_before.bad,
                ..LineTally::default()
            };
            lines.push(LineRaw { channel: now.channel.clone(), way, tally });
        }
    }
    lines
}

impl Lines {
    /// Starts both ends of a line whose octets already flow between `ports`, and waits until packets pass.
    pub(crate) fn start(
        &mut self,
        (channel, wire): (&Channel, &Wire),
        nodes: [&Arc<Netns>; 2],
        ports: &[String; 2],
        logs: Option<(&Path, &str)>,
    ) -> Result<(), LabError> {
        let ChannelKind::Serial(serial) = &channel.kind else { return Ok(()) };
        let folder = match &mut self.folder {
            Some(folder) => folder,
            none => none.insert(Folder::new()?),
        };
        let folder = folder.path().join(&channel.name);
        std::fs::create_dir(&folder).map_err(LabError::io(format!("cannot make {}", folder.display())))?;
        let start = |end: usize| -> Result<End, LabError> {
            let name = format!("line-{}-{end}", channel.name);
            let missing =
                |program: &str| LabError::Topology(format!("the program {program} is not beside this one: {REMEDY}"));
            let (file, key) = (folder.join(format!("{name}.toml")), folder.join(format!("{name}.key")));
            let control = folder.join(format!("{name}.sock"));
            let mut keygen = Command::new(tool().ok_or_else(|| missing("wavelane"))?);
            keygen.arg("keygen").arg("--out").arg(&key);
            output(nodes[end], keygen, REMEDY)?;
            let text = format!(
                "[gateway]\nname = \"{name}\"\nkey = \"{}\"\nstate = \"{name}.state\"\nlisten = \"127.0.0.1:{}\"\nserves = []\ncontrol = \"{}\"\n{}",
                key.display(),
                // One of each channel's, beside the gateways' own.
                10_000 + usize::from(wire.addresses[end].octets()[2]),
                control.display(),
                table(serial, wire, end, &ports[end])
            );
            std::fs::write(&file, text).map_err(LabError::io(format!("cannot write {}", file.display())))?;
            let mut command = tools::command(daemon().ok_or_else(|| missing("wavelaned"))?);
            command.arg("--config").arg(&file);
            let log = match logs {
                Some((out, label)) => program::logs(out)?.join(format!("{label}-{name}.log")),
                None => folder.join(format!("{name}.log")),
            };
            let program = Program::start(nodes[end], name, command, log, Ending::Exits, REMEDY)?;
            Ok(End { program, ns: Arc::clone(nodes[end]), control })
        };
        let mut ends = [start(0)?, start(1)?];
        let deadline = realtime::now() + READY_WITHIN;
        // Both: an end that listens already is no packet that passes.
        while !ends.iter().all(|end| end.program.has_said("carries IP by")) {
            ends.iter_mut().try_for_each(|end| end.program.check())?;
            if realtime::now() > deadline {
                let said = ends.each_ref().map(|end| end.program.last_line()).join("; ");
                return Err(LabError::Late(format!(
                    "the line '{}' did not carry packets within {READY_WITHIN} ({said})",
                    channel.name
                )));
            }
            rest_until(realtime::now() + GLANCE, || false);
        }
        self.ends.push((channel.name.clone(), ends));
        Ok(())
    }

    /// Whether a device is one of theirs.
    pub(crate) fn has(&self, interface: &str) -> bool {
        self.ends.iter().any(|(name, _)| interface.strip_prefix("wl_") == Some(name))
    }

    /// Fails if a daemon has exited, with its last output line.
    pub(crate) fn check(&mut self) -> Result<(), LabError> {
        self.ends.iter_mut().flat_map(|(_, ends)| ends).try_for_each(|end| end.program.check())
    }

    /// What they have counted so far.
    pub(crate) fn counted(&self) -> Result<Vec<Counted>, LabError> {
        let of = |(channel, [a, b]): &(String, [End; 2])| {
            Ok(Counted { channel: channel.clone(), ends: [a.status()?, b.status()?] })
        };
        self.ends.iter().map(of).collect()
    }

    /// Stops them in order. Returns what went wrong.
    pub(crate) fn stop(&mut self) -> Vec<String> {
        program::end(self.ends.drain(..).flat_map(|(_, ends)| ends).map(|end| end.program).collect())
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.stop();
    }
}

impl End {
    fn status(&self) -> Result<Status, LabError> {
        let missing = || LabError::Topology(format!("the program wavelane is not beside this one: {REMEDY}"));
        let mut command = Command::new(tool().ok_or_else(missing)?);
        command.args(["status", "--json", "--control"]).arg(&self.control);
        let printed = output(&self.ns, command, REMEDY)?.stdout;
        let strange =
            |e: serde_json::Error| LabError::Failed { program: "wavelane status".into(), said: e.to_string() };
        let status: Value = serde_json::from_slice(&printed).map_err(strange)?;
        let line = &status["serial"];
        let count = |key: &str| line[key].as_u64().unwrap_or(0);
        let bad = line["bad"].as_array().into_iter().flatten().filter_map(|cause| cause["value"].as_u64()).sum();
        Ok(Status {
            sent: count("packets_out"),
            sent_octets: count("bytes_out"),
            received: count("packets_in"),
            bad,
            dropped: count("dropped"),
        })
    }
}
