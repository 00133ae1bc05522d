//! A resolved radio cell as TOML.

use crate::model::Channel;
use crate::parse_edca::{write_edca, write_fec};
use crate::parse_ht::{ADAPTIVE, VHT, write_shape};
use crate::parse_queue;
use crate::parse_wifi::{MEDIUM, PHYS, hear_word, rate_text};
use crate::write::{text, unit, windows};
use core::fmt::Write;
use wavelane_base::Ratio;
use wavelane_channel::wifi::{CapturePoint, ErrorsPer, PairLoss, Phy, RTS_NEVER, Reach, ReachMap, Retry, WifiConfig};

/// `[channels.NAME]` of a cell.
pub(crate) fn channel(channel: &Channel, cell: &WifiConfig) -> String {
    let names: Vec<String> = channel.between.iter().map(|name| text(name)).collect();
    let mut out = format!("\n[channels.{}]\nkind = \"wifi\"\nnodes = [{}]", channel.name, names.join(", "));
    let mut key = |key: &str, value: String| {
        let _ = write!(out, "\n{key} = {value}");
    };
    phy(cell.phy, &mut key);
    match cell.phy.mcs_of(cell.rate) {
        _ if cell.adapts => key("mcs", text(ADAPTIVE)),
        Some(mcs) => key("mcs", mcs.to_string()),
        None => key("rate", rate_text(cell.rate)),
    }
    if let Some(rate) = cell.answer_rate {
        key("answer-rate", rate_text(rate));
    }
    if let Some(rate) = cell.rts_rate {
        key("rts-rate", rate_text(rate));
    }
    if let Some(noise) = cell.noise_db {
        key("noise", format!("\"{noise} dB\""));
    }
    key("rules", text(cell.rules.name));
    // WaveLAN has none of these.
    if cell.rules.acknowledges {
        let never = cell.rts_threshold >= RTS_NEVER;
        key("rts-threshold", if never { "\"never\"".into() } else { format!("\"{} B\"", cell.rts_threshold) });
        key(
            "retry",
            match cell.rules.retry {
                Retry::PerFrame(tries) => tries.to_string(),
                Retry::ShortLong { short, long } => format!("{{ short = {short}, long = {long} }}"),
            },
        );
    }
    key("queue", format!("\"{} packets\"", cell.queue));
    if !cell.queues.is_empty() {
        let queue =
            |(at, queue): (&usize, &_)| format!("{} = {}", channel.between[*at], parse_queue::write_station(queue));
        let queues: Vec<String> = cell.queues.iter().map(queue).collect();
        key("queues", format!("{{ {} }}", queues.join(", ")));
    }
    if let Some((min, max)) = cell.cw {
        key("cw", format!("[{min}, {max}]"));
    }
    let full = cell.reach == ReachMap::full(names.len());
    key("reach", if full { "\"all\"".into() } else { "\"none\"".into() });
    if !full {
        key("pairs", format!("[\n{}]", pairs(&names, &cell.reach)));
    }
    if let Some(capture) = cell.capture {
        let (margin, mid) = (capture.margin_db, capture.mid_frame);
        key("capture", format!("{{ margin = \"{margin} dB\", mid-frame = {mid} }}"));
    }
    if let Some(errors) = cell.errors {
        let per = match errors.per {
            ErrorsPer::Station { hub } => format!("\"station\", hub = {}", names[hub]),
            ErrorsPer::Receiver => "\"receiver\"".into(),
            ErrorsPer::Cell => "\"cell\"".into(),
        };
        let (good, bad) = (unit(&errors.good), unit(&errors.bad));
        let (in_good, in_bad) = (unit(&errors.in_good), unit(&errors.in_bad));
        key("errors", format!("{{ good = {good}, bad = {bad}, in_good = {in_good}, in_bad = {in_bad}, per = {per} }}"));
    }
    if let Some(edca) = &cell.edca {
        key("edca", write_edca(edca));
    }
    if let Some(aggregate) = &cell.aggregate {
        key("aggregate", format!("{{ frames = {}, size = \"{} B\" }}", aggregate.frames, aggregate.octets));
    }
    if let Some(fec) = &cell.fec {
        key("fec", write_fec(fec));
    }
    if !cell.captures.is_empty() {
        let point = |point: &CapturePoint| match *point {
            CapturePoint::Medium => text(MEDIUM),
            CapturePoint::Station(station) => names[station].clone(),
        };
        let points: Vec<String> = cell.captures.iter().map(point).collect();
        key("pcap", format!("{{ at = [{}], bytes = \"{} B\" }}", points.join(", "), cell.snaplen));
    }
    out
}

fn phy(phy: Phy, key: &mut impl FnMut(&str, String)) {
    let long = |phy| match phy {
        Phy::HrDsss { .. } => Phy::HrDsss { short_preamble: false },
        Phy::ErpOfdm { .. } => Phy::ErpOfdm { short_slot: false },
        Phy::Ht { .. } => Phy::Ht { short_guard: false },
        Phy::Vht { .. } => VHT,
        other => other,
    };
    if let Some(overhead) = phy.wavelan_overhead() {
        key("phy", text("wavelan"));
        return key("overhead", unit(&overhead));
    }
    let word = PHYS.iter().find(|(_, p)| *p == long(phy)).map_or("802.11a", |(word, _)| word);
    key("phy", text(word));
    match phy {
        Phy::HrDsss { short_preamble: true } => key("preamble", "\"short\"".into()),
        Phy::ErpOfdm { short_slot: true } => key("slot", "\"short\"".into()),
        other => write_shape(other, key),
    }
}

fn pairs(names: &[String], map: &ReachMap) -> String {
    let mut out = String::new();
    for from in 0..names.len() {
        for to in 0..names.len() {
            let reach = map.get(from, to);
            if reach == Reach::default() {
                continue;
            }
            let signal = match reach.signal_db {
                0 => String::new(),
                db => format!(", signal = \"{db} dB\""),
            };
            let PairLoss { air, drop, outages } = map.loss(from, to);
            let lost = |key: &str, of: Ratio| {
                if of == Ratio::ZERO { String::new() } else { format!(", {key} = {}", unit(&of)) }
            };
            let (a, b, hear) = (&names[from], &names[to], hear_word(reach));
            let (loss, drop) = (lost("loss", air), lost("drop", drop));
            let off = if outages.is_empty() { String::new() } else { format!(", outages = {}", windows(&outages)) };
            let _ = writeln!(out, "  {{ from = {a}, to = {b}, hear = \"{hear}\"{signal}{loss}{drop}{off} }},");
        }
    }
    out
}
