//! The endpoints' TCP: `[tcp]`.

use crate::error::{Problem, ScenarioError};
use crate::model::{TcpKnobs, TcpProfile};
use crate::parse::word;
use crate::table::Value;
use core::fmt::Write;
use wavelane_base::Quantity;
use wavelane_base::{Octets, Span};

/// Keys of `[tcp]` in files.
pub const TCP_KEYS: &[&str] = &[
    "profile",
    "segment",
    "window",
    "send-buffer",
    "initial-window",
    "ack-every",
    "ack-delay",
    "rto-min",
    "rto-initial",
    "rto-max",
    "quick-acks",
    "sack",
    "timestamps",
    "window-scale",
    "limited-transmit",
];

const PROFILES: &[(&str, TcpProfile)] = &[("stack", TcpProfile::Stack), ("ns3-3.44", TcpProfile::Ns3)];

/// Largest and smallest segment: limited by the largest radio frame, and by what every host must accept (RFC 9293, 3.7.1).
const SEGMENT_MAX: u64 = 2_200;
const SEGMENT_MIN: u64 = 40;
/// Largest buffer: the maximum window with scaling (RFC 7323, section 2.3).
const BUFFER_MAX: u64 = 1 << 30;
/// Maximum number of segments in an initial window, or acknowledged together.
const COUNT_MAX: u64 = 1_000;
/// Longest timer.
const TIMER_MAX: Span = Span::from_secs(60);

/// Reads `[tcp]`.
pub(crate) fn knobs(value: &Value<'_>) -> Result<TcpKnobs, ScenarioError> {
    let table = value.table("{ profile = \"ns3-3.44\" }")?;
    table.only(TCP_KEYS)?;
    let size = |key: &str, least: u64, most: u64| -> Result<Option<Octets>, ScenarioError> {
        let Some(value) = table.get(key) else { return Ok(None) };
        let size: Octets = value.quantity()?;
        within(&value, size.get(), least, most, size.write())?;
        Ok(Some(size))
    };
    let count = |key: &str| -> Result<Option<u32>, ScenarioError> {
        let Some(value) = table.get(key) else { return Ok(None) };
        let count = value.whole()?;
        within(&value, count, 1, COUNT_MAX, count.to_string())?;
        Ok(u32::try_from(count).ok())
    };
    let timer = |key: &str| -> Result<Option<Span>, ScenarioError> {
        let Some(value) = table.get(key) else { return Ok(None) };
        let span: Span = value.quantity()?;
        if span == Span::ZERO || span > TIMER_MAX {
            let why = format!("{} = {} must lie above 0 and at most {}", value.path, span.write(), TIMER_MAX.write());
            return Err(value.impossible(why));
        }
        Ok(Some(span))
    };
    let quick = |key: &str| -> Result<Option<u32>, ScenarioError> {
        let Some(value) = table.get(key) else { return Ok(None) };
        let count = value.whole()?;
        within(&value, count, 0, COUNT_MAX, count.to_string())?;
        Ok(u32::try_from(count).ok())
    };
    let switch = |key: &str| table.get(key).map(|value| value.bool()).transpose();
    let profile = table.get("profile").map(|v| word(&v, "profile", PROFILES, "\"ns3-3.44\"")).transpose()?;
    Ok(TcpKnobs {
        profile: profile.unwrap_or_default(),
        segment: size("segment", SEGMENT_MIN, SEGMENT_MAX)?,
        window: size("window", SEGMENT_MIN, BUFFER_MAX)?,
        send_buffer: size("send-buffer", SEGMENT_MIN, BUFFER_MAX)?,
        initial_window: count("initial-window")?,
        ack_every: count("ack-every")?,
        ack_delay: timer("ack-delay")?,
        rto_min: timer("rto-min")?,
        rto_initial: timer("rto-initial")?,
        rto_max: timer("rto-max")?,
        quick_acks: quick("quick-acks")?,
        sack: switch("sack")?,
        timestamps: switch("timestamps")?,
        window_scale: switch("window-scale")?,
        limited_transmit: switch("limited-transmit")?,
    })
}

fn within(value: &Value<'_>, number: u64, least: u64, most: u64, shown: String) -> Result<(), ScenarioError> {
    if (least..=most).contains(&number) {
        return Ok(());
    }
    let why = format!("{} = {shown} lies outside {least} to {most}: choose a value inside", value.path);
    Err(Problem::Impossible(why).at(value.line))
}

/// Writes `[tcp]`; nothing if all knobs have their defaults.
pub(crate) fn write(knobs: &TcpKnobs) -> String {
    match *knobs == TcpKnobs::default() {
        true => String::new(),
        false => format!("\n[tcp]\n{}", lines(knobs)),
    }
}

/// The knobs that were turned, a line each.
pub(crate) fn lines(knobs: &TcpKnobs) -> String {
    let mut out = String::new();
    let profile = PROFILES.iter().find(|(_, p)| *p == knobs.profile).map_or("stack", |(word, _)| word);
    let texts = [
        ("profile", Some(profile.to_owned())),
        ("segment", knobs.segment.map(|v| v.write())),
        ("window", knobs.window.map(|v| v.write())),
        ("send-buffer", knobs.send_buffer.map(|v| v.write())),
        ("ack-delay", knobs.ack_delay.map(|v| v.write())),
        ("rto-min", knobs.rto_min.map(|v| v.write())),
        ("rto-initial", knobs.rto_initial.map(|v| v.write())),
        ("rto-max", knobs.rto_max.map(|v| v.write())),
    ];
    let plain = [
        ("initial-window", knobs.initial_window.map(|v| v.to_string())),
        ("ack-every", knobs.ack_every.map(|v| v.to_string())),
        ("quick-acks", knobs.quick_acks.map(|v| v.to_string())),
        ("sack", knobs.sack.map(|v| v.to_string())),
        ("timestamps", knobs.timestamps.map(|v| v.to_string())),
        ("window-scale", knobs.window_scale.map(|v| v.to_string())),
        ("limited-transmit", knobs.limited_transmit.map(|v| v.to_string())),
    ];
    for (key, value) in texts {
        if let Some(value) = value {
            let _ = writeln!(out, "{key} = \"{value}\"");
        }
    }
    for (key, value) in plain {
        if let Some(value) = value {
            let _ = writeln!(out, "{key} = {value}");
        }
    }
    out
}
