//! Transfers each way between ours and the kernel at 1 Gbit/s and 2 ms, with losses and with reordering: every byte
//! intact, captures that tshark reads without a complaint, and the counters of the kernel in our place.

use super::{Control, LINK, Watch, Who, fight, link, losing, row};
use crate::document::Row;
use crate::ours::Ours;
use crate::{StudyError, StudyOptions};
use serde_json::json;
use std::path::Path;
use std::process::Command;
use wavelane_base::{Ratio, Seed, Span};
use wavelane_channel::{CableConfig, Cause, Reorder};
use wavelane_lab::duel::{Duel, DuelEnd, Load};
use wavelane_scenario::{Progress, Verdict};

/// Bytes per transfer by edition.
const OCTETS: [u64; 2] = [20_000_000, 200_000_000];
/// Bytes of the transfers that are captured whole.
const CAPTURED_OCTETS: u64 = 10_000_000;
const ROUND_TRIP: Span = Span::from_millis(2);
/// Twice the product of rate and round trip waits at most.
const QUEUE: u64 = 500_000;
/// A transfer slower than this is given up.
const LIMIT: Span = Span::from_secs(120);
/// Counts of repeats may differ by this share, or by this many where there are few.
const COUNT_WITHIN: f64 = 0.1;
const COUNT_BY: f64 = 3.0;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Trouble {
    Loss,
    Reordering,
}

impl Trouble {
    fn word(self) -> &'static str {
        match self {
            Self::Loss => "0.1 % loss",
            Self::Reordering => "1 % of frames 1 ms late",
        }
    }
    fn cable(self) -> CableConfig {
        let mut cable = link(1_000, ROUND_TRIP, QUEUE);
        match self {
            Self::Loss => cable = losing(cable, 1),
            Self::Reordering => {
                let p = Ratio::new(1, 100).expect("at most the whole");
                cable.forward.reorder = Reorder { p, extra: Span::from_millis(1) };
            }
        }
        cable
    }
}

/// What counts of one transfer.
struct Counted {
    goodput: Option<f64>,
    intact: bool,
    retransmits: u64,
    /// Frames that the link's queue dropped: the sender's speed, not the link's dice.
    overflow: u64,
    timeouts: u64,
    inconclusive: Option<String>,
}

impl Counted {
    /// Repeats but for those that a full queue called for.
    fn chosen(&self) -> u64 {
        self.retransmits.saturating_sub(self.overflow)
    }
}

fn counted(end: &DuelEnd<Ours>) -> Counted {
    let flow = &end.flows[0];
    let span = flow.last_ns.unwrap_or(0).saturating_sub(flow.first_ns.unwrap_or(0));
    let kernel = |name: &str| end.kernel[0].as_ref().and_then(|all| all.get(name)).copied();
    let ours = end.guests[0].as_ref().and_then(|host| host.0.statuses().next()).map(|status| status.counters);
    Counted {
        goodput: (span > 0).then(|| flow.octets as f64 * 8e9 / span as f64),
        intact: flow.intact == Some(true),
        retransmits: kernel("TcpRetransSegs").or(ours.map(|c| c.retransmits)).unwrap_or(0),
        overflow: end.link[0].dropped(Cause::Queue).frames,
        timeouts: kernel("TcpExtTCPTimeouts").or(ours.map(|c| c.timeouts)).unwrap_or(0),
        inconclusive: end.inconclusive.clone(),
    }
}

pub(super) fn rows(options: &StudyOptions, full: bool, watch: Watch<'_>) -> Result<Vec<Row>, StudyError> {
    let mut rows = captured(options, watch)?;
    let octets = OCTETS[usize::from(full)];
    for trouble in [Trouble::Loss, Trouble::Reordering] {
        for control in Control::ALL {
            let mut per_pair = Vec::new();
            for who in [[Who::Kernel, Who::Kernel], [Who::Ours, Who::Kernel], [Who::Kernel, Who::Ours]] {
                tell(
                    watch,
                    control,
                    options.seed,
                    &format!("{} to {}, {}", who[0].word(), who[1].word(), trouble.word()),
                );
                let end = fight(&duel(options.seed, trouble.cable(), octets), who, control, watch.cancelled)?;
                per_pair.push((who, counted(&end)));
            }
            rows.extend(per_pair.iter().map(|(who, c)| transfer(control, trouble, *who, octets, c)));
            rows.extend(compare(control, trouble, &per_pair));
        }
    }
    Ok(rows)
}

fn duel(seed: Seed, cable: CableConfig, octets: u64) -> Duel {
    let load = Load::Octets(octets);
    Duel { name: LINK.into(), seed, cable, flows: 1, load, limit: LIMIT, ipv6: false, capture: None }
}

pub(super) fn tell(watch: Watch<'_>, control: Control, seed: Seed, note: &str) {
    let (at, of) = (Span::ZERO, Span::ZERO);
    (watch.progress)(Progress { stack: control.stack(), seed, at, of, note: note.to_owned() });
}

/// One transfer: intact, and how fast.
fn transfer(control: Control, trouble: Trouble, who: [Who; 2], octets: u64, counted: &Counted) -> Row {
    let case = json!({ "from": who[0].word(), "to": who[1].word(), "trouble": trouble.word(), "octets": octets });
    let mut row = row("lab", control.word(), "intact", "share", case);
    (row.value, row.n) = (Some(f64::from(u8::from(counted.intact))), 1);
    row.verdict = if counted.intact { Verdict::Pass } else { Verdict::Fail };
    let speed = counted.goodput.map_or(0.0, |bps| bps / 1e6);
    let (repeats, overflow, timeouts) = (counted.retransmits, counted.overflow, counted.timeouts);
    row.why = format!(
        "{} to {}, {}: {speed:.0} Mbit/s, {repeats} segments repeated, the queue dropped {overflow}, {timeouts} timeouts",
        who[0].word(),
        who[1].word(),
        trouble.word()
    );
    if let Some(why) = &counted.inconclusive {
        row.why += &format!("; {why}");
    }
    row
}

/// Ours against the kernel in the same place: repeats and timeouts. What a full queue dropped is left out: it depends on
/// how fast each machine was, and every such frame must be repeated.
fn compare(control: Control, trouble: Trouble, pairs: &[([Who; 2], Counted)]) -> Vec<Row> {
    let of = |who: [Who; 2]| pairs.iter().find(|(w, _)| *w == who).map(|(_, counted)| counted);
    let (Some(ours), Some(theirs)) = (of([Who::Ours, Who::Kernel]), of([Who::Kernel, Who::Ours])) else {
        return Vec::new();
    };
    let busy = ours.inconclusive.as_ref().or(theirs.inconclusive.as_ref());
    let one = |metric: &str, ours: u64, theirs: u64, raw: Option<(u64, u64)>| {
        let case = json!({ "trouble": trouble.word(), "linux": theirs, "ours": ours });
        let mut row = row("lab", control.word(), metric, "ratio", case);
        let (a, b) = (ours as f64, theirs as f64);
        (row.value, row.n) = ((theirs > 0).then(|| a / b), 1);
        let near = (a - b).abs() <= (COUNT_WITHIN * b).max(COUNT_BY);
        row.verdict = if near { Verdict::Pass } else { Verdict::Fail };
        row.why = format!("{}: {ours} of ours against {theirs}, wanted within 10 % or {COUNT_BY:.0}", trouble.word());
        if let Some((ours, theirs)) = raw {
            row.why += &format!("; with what full queues called for {ours} against {theirs}");
        }
        if let Some(why) = busy.filter(|_| !near) {
            row.verdict = Verdict::Inconclusive;
            row.why += &format!("; {why}");
        }
        row
    };
    vec![
        one(
            "retransmits over the kernel's",
            ours.chosen(),
            theirs.chosen(),
            Some((ours.retransmits, theirs.retransmits)),
        ),
        one("timeouts over the kernel's", ours.timeouts, theirs.timeouts, None),
    ]
}

/// Short transfers, captured whole and read by tshark, over both versions of IP.
fn captured(options: &StudyOptions, watch: Watch<'_>) -> Result<Vec<Row>, StudyError> {
    let mut rows = Vec::new();
    for (ipv6, who) in [
        (false, [Who::Ours, Who::Kernel]),
        (false, [Who::Kernel, Who::Ours]),
        (true, [Who::Ours, Who::Kernel]),
        (true, [Who::Kernel, Who::Ours]),
    ] {
        let version = if ipv6 { "IPv6" } else { "IPv4" };
        let path = options.out.join(format!("{}-{}-{version}.pcapng", who[0].word(), who[1].word()));
        let mut duel = duel(options.seed, losing(link(200, ROUND_TRIP, QUEUE), 1), CAPTURED_OCTETS);
        (duel.ipv6, duel.capture) = (ipv6, Some(path.clone()));
        tell(watch, Control::Cubic, options.seed, &format!("capturing {} to {}", who[0].word(), who[1].word()));
        let end = fight(&duel, who, Control::Cubic, watch.cancelled)?;
        let case = json!({ "from": who[0].word(), "to": who[1].word(), "ip": version, "octets": CAPTURED_OCTETS });
        let mut row = row("lab", "cubic", "frames tshark complains about", "frames", case);
        let intact = end.flows[0].intact == Some(true);
        match complaints(&path) {
            Ok((frames, bad)) => {
                (row.value, row.n, row.bound) = (Some(bad as f64), frames, Some(0.0));
                row.verdict = if bad == 0 && intact && frames > 0 { Verdict::Pass } else { Verdict::Fail };
                row.why = format!("{version}, {frames} frames, {bad} malformed or wrongly summed; intact: {intact}");
            }
            Err(why) => (row.verdict, row.why) = (Verdict::Inconclusive, why),
        }
        rows.push(row);
    }
    Ok(rows)
}

/// Frames in a capture, and those that tshark finds malformed, wrongly summed or an error of the protocol.
pub(super) fn complaints(path: &Path) -> Result<(u64, u64), String> {
    let count = |filter: &str| -> Result<u64, String> {
        let sums = ["-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE"];
        let out = Command::new("tshark").arg("-n").arg("-r").arg(path).args(sums).args(["-Y", filter]).output();
        let out = out.map_err(|e| format!("cannot run tshark ({e}): install it (apt install tshark)"))?;
        if !out.status.success() {
            return Err(format!("tshark failed: {}", String::from_utf8_lossy(&out.stderr).trim()));
        }
        Ok(out.stdout.iter().filter(|byte| **byte == b'\n').count() as u64)
    };
    // 0x00800000 is the severity "error".
    // A sum of 0xffff is the other form of zero (RFC 1624, section 3), which Linux writes where it sums in software.
    // What segments carry is noise: of those with a good sum, a protocol that is at home on a port drawn at random, or
    // that guesses by content, would call some malformed.
    let bad = "(tcp.checksum.status == 0 || ip.checksum.status == 0 \
               || ((_ws.malformed || _ws.expert.severity >= 0x00800000) && !(tcp.len > 0 && tcp.checksum.status == 1))) \
               && !(tcp.checksum == 0xffff)";
    Ok((count("tcp")?, count(bad)?))
}
