//! How a serial line is set: the keys that a lane over one shares with `[serial]`.

use super::lane_table::LaneEnds;
use super::{ConfigError, Directions, LaneMedium, LaneSocket, UDP, value};
use std::net::{IpAddr, SocketAddr};
use wavelane_base::{Address, Quantity, Rate, Span};
use wavelane_gateway::Controller;
use wavelane_host::tty::PortSettings;
use wavelane_serial::chat::Script;
use wavelane_serial::{Framing, FramingError, dialer};
use wavelane_settings::{LINE_MTU, LaneTable, LineKeys, RadioLanes};

/// What a port runs at if the file does not say.
const RATE_DEFAULT: u32 = 115_200;
/// The slowest line that carries a session: a handshake takes some 200 octets, which are 7 s there.
const RATE_MIN: u32 = 300;
/// No serial port is faster (USB 2.0 adapters).
const RATE_MAX: u32 = 12_000_000;
/// From this rate on the longest packet is the default and takes 0.13 s. Below, it is the shortest, which takes 0.17 s at 33.6 kbit/s.
const LONG_PACKETS_FROM: u32 = 115_200;
/// Of ten bits on the wire eight carry data (8N1).
const DATA_BITS: (u64, u64) = (8, 10);

/// A call is hung up after so long without a frame, where the other end is never silent for half as long: a neighbour asks for signs of life
/// within 25 s, and PPP within 10. Policy: such a call costs money.
const PROOF_MAX: Span = Span::from_secs(60);

/// Octets around a datagram by SLIP: an END before it after silence, and one behind it. One octet in 128 is sent as two.
pub(crate) const SLIP_OVERHEAD: usize = 2;
/// By KISS: an END more, and the command.
const KISS_OVERHEAD: usize = 3;
/// By PPP: two flags, address, control, protocol and check sequence (RFC 1662, section 3.1).
const PPP_OVERHEAD: usize = 8;

/// A serial line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Line {
    /// How the port is set.
    pub port: PortSettings,
    /// How frames are told apart.
    pub framing: Framing,
    /// The longest packet.
    pub mtu: usize,
}

impl Line {
    /// Octets around a packet.
    pub(crate) fn overhead(&self) -> usize {
        match self.framing {
            Framing::Slip1998 | Framing::Slip | Framing::Cslip => SLIP_OVERHEAD,
            Framing::Kiss => KISS_OVERHEAD,
            Framing::Ppp => PPP_OVERHEAD,
        }
    }
    /// The port's rate.
    pub(crate) fn rate(&self) -> Rate {
        Rate::from_bps(u64::from(self.port.rate))
    }
    /// How it is set, in words.
    pub(crate) fn words(&self) -> String {
        let flow = if self.port.hardware_flow { ", hardware flow control" } else { "" };
        let carrier = if self.port.carrier { ", carrier watched" } else { "" };
        let kilobits = f64::from(self.port.rate) / 1e3;
        format!("{kilobits} kbit/s, {}, MTU {}{flow}{carrier}", self.framing, self.mtu)
    }
    /// What a lane by this line starts at: the controller need not find out.
    pub(crate) fn start_rate(&self) -> Option<Rate> {
        let (data, all) = DATA_BITS;
        let rate = self.rate().scale(data, all);
        (Controller::START_RATE_MIN..=Controller::START_RATE).contains(&rate).then_some(rate)
    }
}

/// The address of what is at the other end of a port: a number of the port's, so that lines differ.
pub(crate) fn far_end(port: &str) -> Address {
    // FNV-1a, folded.
    let hash = port.bytes().fold(0x811c_9dc5_u32, |hash, octet| (hash ^ u32::from(octet)).wrapping_mul(0x0100_0193));
    Address::Line((hash >> 16 ^ hash) as u16)
}

/// Refuses a line's keys in a lane over something else.
pub(super) fn refuse_elsewhere(t: &LaneTable, key: &str) -> Result<(), ConfigError> {
    let given = [
        ("rate", t.line.rate.is_some() && t.radio.is_none_or(|lanes| lanes == RadioLanes::Plain)),
        ("framing", t.line.framing.is_some()),
        ("flow_control", t.line.flow_control.is_some()),
        ("carrier", t.line.carrier.is_some()),
        ("mtu", t.line.mtu.is_some()),
        ("chat", t.line.chat.is_some()),
    ];
    match given.iter().find(|(_, given)| *given) {
        Some((word, _)) if *word == "rate" && t.medium.as_deref().is_none_or(|word| word == UDP.word) => Err(value(
            format!("{key}: rate"),
            "is of serial lanes and radios alone: remove it, or add medium = \"serial\", or radio = \"paced\" with a `local` or `device`",
        )),
        Some((word, _)) => {
            Err(value(format!("{key}: {word}"), "is of serial lanes alone: remove it, or add medium = \"serial\""))
        }
        None => Ok(()),
    }
}

/// The ends of a lane over a serial port.
pub(crate) fn serial_ends(t: &LaneTable, key: &str, _: SocketAddr) -> Result<LaneEnds, ConfigError> {
    let refuse = |field: &str, what: &str| Err(value(format!("{key}: {field}"), what));
    let Some(device) = t.device.clone() else {
        return refuse("device", "is missing: a serial lane needs the path of its port, such as /dev/ttyUSB0");
    };
    if t.address.is_some() {
        return refuse("address", "a line has one other end, which needs no address: remove it");
    }
    if t.local.is_some() || t.mark.is_some() || t.priority.is_some() {
        let field = if t.local.is_some() { "local" } else { ["mark", "priority"][usize::from(t.mark.is_none())] };
        return refuse(field, "is of lanes over IP or Ethernet, and a serial line has neither: remove it");
    }
    let line = line(&t.line, key)?;
    if line.framing == Framing::Cslip {
        return refuse(
            "framing",
            "is \"cslip\", and a lane's datagrams have no TCP headers to compress: write \"slip\"",
        );
    }
    let dial = dial(t.line.chat.as_deref(), t.direction != Some(Directions::Out), key)?;
    let address = (t.direction != Some(Directions::In)).then(|| far_end(&device).to_string());
    let local = SocketAddr::new(IpAddr::from([0_u16; 8]), 0);
    let socket = LaneSocket {
        local,
        device: Some(device),
        medium: LaneMedium::default(),
        priority: 0,
        mark: None,
        line: Some(line),
        dial,
        radio: None,
    };
    Ok(LaneEnds { address, socket: Some(socket) })
}

/// How a modem gets a connection. `proves` is whether the other end is never silent for long.
pub(super) fn dial(chat: Option<&str>, proves: bool, key: &str) -> Result<Option<dialer::Config>, ConfigError> {
    let script = chat.map(Script::parse).transpose();
    let script = script.map_err(|why| value(format!("{key}: chat"), format!("cannot be read: {why}")))?;
    let proof_max = proves.then_some(PROOF_MAX);
    Ok(script.map(|script| dialer::Config { proof_max, ..dialer::Config::new(script) }))
}

/// Reads the keys of a line.
pub(super) fn line(keys: &LineKeys, key: &str) -> Result<Line, ConfigError> {
    let wrong = |field: &str, what: String| value(format!("{key}: {field}"), what);
    let rate = keys.rate.as_deref().map_or(Ok(RATE_DEFAULT), rate).map_err(|why| wrong("rate", why))?;
    let framing = keys.framing.as_deref().map_or(Ok(Framing::Slip), str::parse);
    let framing = framing.map_err(|why: FramingError| wrong("framing", why.to_string()))?;
    let hardware_flow = match keys.flow_control.as_deref().unwrap_or("none") {
        "none" => false,
        "hardware" => true,
        "software" => {
            return Err(wrong(
                "flow_control",
                "is \"software\" (XON/XOFF), which takes two octets out of the data: use \"hardware\" (RTS/CTS), or \"none\" with a cable of three wires".into(),
            ));
        }
        other => return Err(wrong("flow_control", format!("is '{other}': write \"none\" or \"hardware\""))),
    };
    let mtu = keys.mtu.unwrap_or(*if rate < LONG_PACKETS_FROM { LINE_MTU.start() } else { LINE_MTU.end() });
    Ok(Line { port: PortSettings { rate, hardware_flow, carrier: keys.carrier.unwrap_or(false) }, framing, mtu })
}

/// A port's rate.
fn rate(text: &str) -> Result<u32, String> {
    let rate = Rate::parse(text).map_err(|_| format!("'{text}' is not a rate, such as \"115.2 kbit/s\""))?;
    let bps = u32::try_from(rate.as_bps()).unwrap_or(u32::MAX);
    if !(RATE_MIN..=RATE_MAX).contains(&bps) {
        return Err(format!("no serial line of {text} can be used: write {RATE_MIN} to {RATE_MAX} bit/s"));
    }
    Ok(bps)
}
