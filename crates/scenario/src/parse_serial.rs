//! A serial line: `kind = "serial"`, read and written.

use crate::ScenarioError;
use crate::model::{Channel, ChannelKind, SerialChannel, SerialFraming};
use crate::parse_channel::parameter;
use crate::parse_pair::{ends, head, refused};
use crate::parse_trace::Base;
use crate::word;
use crate::write::{loss, unit, windows};
use crate::{Table, Value};
use core::fmt::Write;
use wavelane_base::{Octets, Rate, Ratio, Span};
use wavelane_channel::{
    Coding, DirectionConfig, Gain, LossConfig, QueueLimit, Queueing, SerialConfig, SerialDirection, Uart,
};

/// Keys of a serial channel in files.
pub const SERIAL_KEYS: &[&str] = &["kind", "between", "preset", "framing", "mtu", "forward", "reverse"];
/// Keys of one direction of it.
pub const SERIAL_WAY_KEYS: &[&str] =
    &["rate", "delay", "queue", "loss", "outages", "synchronous", "modem", "uart", "noise"];

/// Smallest and largest MTU: IPv4's least (RFC 791, section 3.2), and what no serial line exceeds.
const MTUS: core::ops::RangeInclusive<u64> = 68..=9_000;

const FRAMINGS: &[(&str, SerialFraming)] = &[
    ("slip", SerialFraming::Slip),
    ("slip-1998", SerialFraming::Slip1998),
    ("cslip", SerialFraming::Cslip),
    ("ppp", SerialFraming::Ppp),
    ("ppp+vj", SerialFraming::PppVj),
    ("kiss", SerialFraming::Kiss),
];

/// Makes one direction.
type Preset = fn() -> SerialDirection;
/// Both directions alike.
const PRESETS: &[(&str, Preset)] = &[
    // Two computers with 16550s and a cable.
    ("null-modem", || SerialDirection {
        uart: Some(Uart::new(16, Span::from_millis(1))),
        ..SerialDirection::default()
    }),
    ("modem-33.6", || modem(Coding::V42)),
    ("modem-33.6-v42bis", || modem(Coding::V42bis(Gain::TWO))),
];

/// V.34 at its best.
fn modem(coding: Coding) -> SerialDirection {
    let line = SerialDirection { rate: Rate::from_bps(33_600), coding, ..SerialDirection::default() };
    line.settled(Span::ZERO)
}

/// Reads a serial channel.
pub(crate) fn serial(name: &str, table: &Table<'_>, base: &Base<'_>) -> Result<Channel, ScenarioError> {
    table.only(SERIAL_KEYS)?;
    let between = ends(table)?;
    let preset = table.get("preset").map(|at| word(&at, "preset", PRESETS, "\"null-modem\"")).transpose()?;
    let start = preset.map_or_else(SerialDirection::default, |preset| preset());
    let forward = match table.get("forward") {
        Some(own) => way(&own, start.clone(), preset.is_none(), base)?,
        None if preset.is_some() => start.clone(),
        None => return Err(missing(table, "forward")),
    };
    let back = table.get("reverse");
    let one_way = back.as_ref().is_some_and(|value| value.as_str() == Some("none"));
    let mut reverse = match &back {
        Some(word) if matches!(word.as_str(), Some("same" | "none")) => forward.clone(),
        Some(word) if word.as_str().is_some() => {
            return Err(
                word.impossible(format!("{} is neither \"same\" nor \"none\" nor a table like forward", word.path))
            );
        }
        Some(own) => way(own, start, preset.is_none(), base)?,
        None if preset.is_some() => start,
        None => return Err(missing(table, "reverse")),
    };
    if one_way {
        reverse.cable.loss = LossConfig::Random { p: Ratio::ONE };
    }
    let framing = table.get("framing").map(|at| word(&at, "framing", FRAMINGS, "\"slip\"")).transpose()?;
    let framing = framing.unwrap_or(SerialFraming::Slip);
    if let (Some(at), true, true) = (&back, one_way, framing.is_ppp()) {
        let why = format!("framing \"{}\" is negotiated both ways, and this line has one", framing.word());
        return Err(at.impossible(format!("{}: {why}: give reverse a rate, or use slip or cslip", at.path)));
    }
    let mtu = match table.get("mtu") {
        Some(at) => {
            let octets = at.quantity::<Octets>()?.get();
            let fits = u16::try_from(octets).ok().filter(|_| MTUS.contains(&octets));
            let (least, most) = (MTUS.start(), MTUS.end());
            let why = || {
                at.impossible(format!(
                    "{}: {octets} B is no packet of a serial line: use {least} B to {most} B",
                    at.path
                ))
            };
            fits.ok_or_else(why)?
        }
        None => SerialChannel::MTU_DEFAULT,
    };
    let line = SerialConfig { forward, reverse };
    line.check().map_err(|why| refused(table, "forward", &why))?;
    let kind = ChannelKind::Serial(Box::new(SerialChannel { framing, mtu, line }));
    Ok(Channel { name: name.to_owned(), between, kind, one_way })
}

/// What a direction that is not there looks like.
fn missing(table: &Table<'_>, key: &'static str) -> ScenarioError {
    let example = if key == "forward" { "{ rate = \"115200 bit/s\" }" } else { "\"same\"" };
    match table.need(key, example) {
        Err(why) => why,
        Ok(at) => at.impossible(format!("{} is damaged", at.path)),
    }
}

/// One direction, on top of `line`; `needs_rate` if no preset gave one.
fn way(
    value: &Value<'_>,
    mut line: SerialDirection,
    needs_rate: bool,
    base: &Base<'_>,
) -> Result<SerialDirection, ScenarioError> {
    let table = value.table("{ rate = \"115200 bit/s\" }")?;
    table.only(SERIAL_WAY_KEYS)?;
    if needs_rate {
        table.need("rate", "\"115200 bit/s\"")?;
    }
    line.rate = table.quantity("rate")?.unwrap_or(line.rate);
    line.noise = table.quantity("noise")?.unwrap_or(line.noise);
    if let Some(at) = table.get("modem") {
        line.coding = modem_of(&at)?;
    }
    if let Some(at) = table.get("synchronous") {
        if at.bool()? && table.get("modem").is_some() {
            return Err(at.impossible(format!("{}: a modem is synchronous by itself: remove synchronous", at.path)));
        }
        line.coding = if at.bool()? { Coding::Sync } else { line.coding };
    }
    if let Some(at) = table.get("uart") {
        let uart = at.table("{ fifo = 16, service = \"1 ms\" }")?;
        uart.only(&["fifo", "trigger", "service"])?;
        let count = |at: &Value<'_>| at.whole().map(|n| u32::try_from(n).unwrap_or(u32::MAX));
        let made = Uart::new(count(&uart.need("fifo", "16")?)?, uart.need("service", "\"1 ms\"")?.quantity()?);
        let trigger = uart.get("trigger").map(|at| count(&at)).transpose()?;
        line.uart = Some(Uart { trigger: trigger.unwrap_or(made.trigger), ..made });
    }
    let delay = table.quantity("delay")?.unwrap_or(line.way_delay());
    for key in ["queue", "loss", "outages"] {
        if let Some(at) = table.get(key) {
            let set = line.cable.set(parameter(key, &at, base)?);
            set.map_err(|why| at.impossible(format!("{}: {why}", at.path)))?;
        }
    }
    let line = line.settled(delay);
    line.check().map_err(|why| value.impossible(format!("{}: {why}", value.path)))?;
    Ok(line)
}

/// `{}` for error correction alone, `{ gain = "2" }` for compression too.
fn modem_of(value: &Value<'_>) -> Result<Coding, ScenarioError> {
    let table = value.table("{ gain = \"2\" }")?;
    table.only(&["gain"])?;
    let Some(at) = table.get("gain") else { return Ok(Coding::V42) };
    let text = at.str("a ratio", "\"2\"")?;
    let hundredths = text.trim().parse::<f64>().ok().filter(|gain| gain.is_finite()).map(|gain| (gain * 100.0).round());
    let gain = hundredths.filter(|n| (0.0..1e6).contains(n)).and_then(|n| Gain::from_hundredths(n as u64));
    let why = || {
        at.impossible(format!(
            "{}: '{text}' is no gain of V.42bis: use \"1\" to \"4\", such as \"2\" or \"2.6\"",
            at.path
        ))
    };
    gain.map(Coding::V42bis).ok_or_else(why)
}

impl SerialFraming {
    /// Its word in files.
    pub fn word(self) -> &'static str {
        FRAMINGS.iter().find(|(_, framing)| *framing == self).map_or("slip", |(word, _)| word)
    }
    /// Whether it is negotiated.
    pub fn is_ppp(self) -> bool {
        matches!(self, Self::Ppp | Self::PppVj)
    }
}

/// Writes it.
pub(crate) fn write(channel: &Channel, serial: &SerialChannel) -> String {
    let mut out = head(channel, "serial");
    let mtu = Octets::new(u64::from(serial.mtu));
    let _ = writeln!(out, "framing = \"{}\"\nmtu = {}", serial.framing.word(), unit(&mtu));
    let _ = writeln!(out, "forward = {}", write_way(&serial.line.forward));
    let reverse = if channel.one_way { "\"none\"".into() } else { write_way(&serial.line.reverse) };
    let _ = writeln!(out, "reverse = {reverse}");
    out
}

fn write_way(line: &SerialDirection) -> String {
    let mut parts = vec![format!("rate = {}", unit(&line.rate)), format!("delay = {}", unit(&line.way_delay()))];
    match line.coding {
        Coding::Async => {}
        Coding::Sync => parts.push("synchronous = true".into()),
        Coding::V42 => parts.push("modem = {}".into()),
        Coding::V42bis(gain) => {
            parts.push(format!("modem = {{ gain = \"{}.{:02}\" }}", gain.hundredths() / 100, gain.hundredths() % 100));
        }
    }
    if let Some(Uart { fifo, trigger, service }) = line.uart {
        parts.push(format!("uart = {{ fifo = {fifo}, trigger = {trigger}, service = {} }}", unit(&service)));
    }
    if line.noise != Ratio::ZERO {
        parts.push(format!("noise = {}", unit(&line.noise)));
    }
    let DirectionConfig { queue, loss: lost, outages, .. } = &line.cable;
    if *queue != QueueLimit::default() {
        parts.push(format!("queue = {}", crate::parse_queue::write(*queue, Queueing::default())));
    }
    if *lost != LossConfig::None {
        parts.push(format!("loss = {}", loss(lost)));
    }
    if !outages.is_empty() {
        parts.push(format!("outages = {}", windows(outages)));
    }
    format!("{{ {} }}", parts.join(", "))
}

#[cfg(test)]
#[path = "parse_serial_tests.rs"]
mod tests;
