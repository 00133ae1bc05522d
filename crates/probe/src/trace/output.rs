//! A trace as JSON, CSV and tables.

use super::connection::Connection;
use super::fields::{fields, goodput_bps, passive_rtt};
use super::{Host, Trace, Unread, Vantage};
use core::fmt::Write;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};
use std::io;
use wavelane_measure::{Cells, Column, Table, csv_field};

/// The `format` of the JSON document.
pub const TRACE_FORMAT: &str = "wavelane-trace/1";

/// The whole document; `file` is named in it.
pub fn json(trace: &Trace, file: &str) -> Value {
    serde_json::to_value(Document { trace, file }).expect("text keys and finite numbers only")
}

/// Writes the same, one connection at a time: for a hundred thousand connections the document is far larger than its source data.
pub fn write_json(trace: &Trace, file: &str, mut out: impl io::Write) -> io::Result<()> {
    serde_json::to_writer(&mut out, &Document { trace, file })?;
    out.write_all(b"\n")
}

struct Document<'a> {
    trace: &'a Trace,
    file: &'a str,
}

/// The connections, each converted only when it is written.
struct Connections<'a>(&'a [Connection]);

impl Serialize for Connections<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(connection))
    }
}

impl Serialize for Document<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let trace = self.trace;
        let host = |h: &Host| {
            json!({
                "host": h.address.to_string(), "sent_bytes": h.sent_bytes, "received_bytes": h.received_bytes,
            })
        };
        let mut all = serializer.serialize_map(None)?;
        let unread = |(cause, n): (&Unread, &u64)| (cause.key().to_owned(), json!(n));
        all.serialize_entry("connections", &Connections(&trace.connections))?;
        all.serialize_entry("copies", &trace.copies)?;
        all.serialize_entry("damage", &trace.ending.damage)?;
        all.serialize_entry("file", self.file)?;
        all.serialize_entry("format", TRACE_FORMAT)?;
        all.serialize_entry("hosts", &trace.hosts.list().iter().map(host).collect::<Vec<_>>())?;
        all.serialize_entry("hosts_asymmetric_share", &trace.hosts.asymmetric_share())?;
        all.serialize_entry("hosts_others_bytes", &trace.hosts.others_bytes)?;
        all.serialize_entry("left_out_segments", &trace.left_out)?;
        all.serialize_entry("packets", &trace.packets)?;
        all.serialize_entry("short_segments", &trace.short)?;
        all.serialize_entry("unreadable_packets", &trace.unreadable())?;
        all.serialize_entry("unread", &trace.unread.iter().map(unread).collect::<Map<_, _>>())?;
        all.end()
    }
}

fn seconds(unix_ns: u64) -> f64 {
    unix_ns as f64 / 1e9
}

fn connection(c: &Connection) -> Value {
    json!({
        "a": c.a.to_string(),
        "b": c.b.to_string(),
        "complete": c.completeness().word(),
        "first_packet_unix_s": seconds(c.first_ns),
        "last_packet_unix_s": seconds(c.last_ns),
        "elapsed_s": c.elapsed_s(),
        "a2b": direction(c, 0),
        "b2a": direction(c, 1),
    })
}

fn direction(c: &Connection, way: usize) -> Map<String, Value> {
    let mut all: Map<String, Value> = fields(c, way).into_iter().map(|f| (f.name.to_owned(), f.value)).collect();
    for (name, value) in further(c, way) {
        all.insert(name.to_owned(), value);
    }
    all
}

/// Figures that tcptrace does not have.
fn further(c: &Connection, way: usize) -> Vec<(&'static str, Value)> {
    let repairs = &c.halves[way].repairs;
    let rtt = passive_rtt(c, way);
    let n = &repairs.counts;
    let confidence = (repairs.judged > 0).then(|| repairs.certain as f64 / repairs.judged as f64);
    vec![
        (
            "retransmits",
            json!({
                "fast": n.fast, "rto": n.rto, "tlp": n.tlp, "spurious": n.spurious, "reordered": n.reordered,
                "timeouts": n.timeouts, "filled_gaps": repairs.filled, "confidence": confidence,
            }),
        ),
        ("initial_seq", json!(c.halves[way].syn.map(|s| s as u32))),
        ("vantage", json!(c.vantage(way).map(Vantage::word))),
        ("goodput_bps", json!(goodput_bps(c, way))),
        ("rtt_p50_ms", json!(rtt.map(|r| r.p50_ms))),
        ("rtt_p95_ms", json!(rtt.map(|r| r.p95_ms))),
        ("rtt_samples", json!(rtt.map_or(0, |r| r.samples))),
        ("rtt_source", json!(rtt.map(|r| r.source))),
    ]
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => csv_field(text),
        other => other.to_string(),
    }
}

/// One line per connection, with the columns of `tcptrace --csv -lrW` followed by further ones.
pub fn csv(trace: &Trace) -> String {
    let mut out = String::new();
    for (i, c) in trace.connections.iter().enumerate() {
        let ways = [spelled(c, 0), spelled(c, 1)];
        if i == 0 {
            out.push_str("conn_#,host_a,host_b,port_a,port_b,first_packet,last_packet");
            for (name, _) in &ways[0] {
                let _ = write!(out, ",{name}_a2b,{name}_b2a");
            }
            out.push('\n');
        }
        let (first, last) = (seconds(c.first_ns), seconds(c.last_ns));
        let (a, b) = (c.a, c.b);
        let _ = write!(out, "{},{},{},{},{}", i + 1, a.address.ip(), b.address.ip(), a.port, b.port);
        let _ = write!(out, ",{first:.6},{last:.6}");
        for ((_, there), (_, back)) in ways[0].iter().zip(&ways[1]) {
            let _ = write!(out, ",{there},{back}");
        }
        out.push('\n');
    }
    out
}

/// All figures of a direction, nested ones under a joined name.
fn flat(c: &Connection, way: usize) -> Vec<(String, Value)> {
    let mut all: Vec<(String, Value)> = fields(c, way).into_iter().map(|f| (f.name.to_owned(), f.value)).collect();
    for (name, value) in further(c, way) {
        match value {
            Value::Object(inner) => all.extend(inner.into_iter().map(|(n, v)| (format!("{name}_{n}"), v))),
            other => all.push((name.to_owned(), other)),
        }
    }
    all
}

/// The same in CSV notation.
fn spelled(c: &Connection, way: usize) -> Vec<(String, String)> {
    flat(c, way).into_iter().map(|(name, value)| (name, plain(&value))).collect()
}

/// Columns without an example in a capture still have a type, so that tables of several captures are compatible: these are texts and
/// counts, and all others numbers.
const TEXTS: [&str; 2] = ["vantage", "rtt_source"];
const COUNTS: [&str; 5] = ["mss_requested", "wavg_owin", "ttl_stream_length", "missed_data", "initial_seq"];

/// A column of figures; `values` are one per connection.
fn column(name: &str, way: &str, values: &[&Value]) -> Column {
    let whole = |value: &&Value| value.is_u64() || value.is_null();
    let text = values.iter().any(|v| v.is_string()) || TEXTS.contains(&name);
    let count = values.iter().any(|v| v.is_u64()) || COUNTS.contains(&name);
    let cells = if text {
        Cells::Texts(values.iter().map(|v| v.as_str().map(str::to_owned)).collect())
    } else if count && values.iter().all(whole) {
        Cells::Counts(values.iter().map(|v| v.as_u64()).collect())
    } else {
        Cells::Numbers(values.iter().map(|v| v.as_f64()).collect())
    };
    Column { name: format!("{name}_{way}"), cells }
}

/// The columns of [`csv`] with their types.
pub fn columns(trace: &Trace) -> Table {
    let all = &trace.connections;
    let text = |of: &dyn Fn(&Connection) -> String| Cells::Texts(all.iter().map(|c| Some(of(c))).collect());
    let count = |of: &dyn Fn(usize, &Connection) -> u64| {
        Cells::Counts(all.iter().enumerate().map(|(i, c)| Some(of(i, c))).collect())
    };
    let time = |of: &dyn Fn(&Connection) -> u64| Cells::Numbers(all.iter().map(|c| Some(seconds(of(c)))).collect());
    let heads = [
        ("conn_#", count(&|i, _| i as u64 + 1)),
        ("host_a", text(&|c| c.a.address.ip().to_string())),
        ("host_b", text(&|c| c.b.address.ip().to_string())),
        ("port_a", count(&|_, c| c.a.port.into())),
        ("port_b", count(&|_, c| c.b.port.into())),
        ("first_packet", time(&|c| c.first_ns)),
        ("last_packet", time(&|c| c.last_ns)),
    ];
    let mut columns: Vec<Column> =
        heads.into_iter().map(|(name, cells)| Column { name: name.to_owned(), cells }).collect();
    let ways: Vec<[Vec<(String, Value)>; 2]> = all.iter().map(|c| [flat(c, 0), flat(c, 1)]).collect();
    let names = ways.first().map(|[there, _]| there.iter().map(|(name, _)| name.as_str()));
    for (at, name) in names.into_iter().flatten().enumerate() {
        for (way, word) in ["a2b", "b2a"].into_iter().enumerate() {
            let values: Vec<&Value> = ways.iter().map(|both| &both[way][at].1).collect();
            columns.push(column(name, word, &values));
        }
    }
    Table::new(columns)
}

fn shown(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |v| format!("{v:.decimals$}"))
}

/// One line per connection and direction.
pub fn table(trace: &Trace) -> String {
    let mut out = format!("{} packets, {} TCP connections", trace.packets, trace.connections.len());
    for (n, what) in [
        (trace.copies, "copies of segments, seen at a second port and left out"),
        (trace.short, "segments cut off in their header"),
        (trace.left_out, "segments of further connections left out"),
    ] {
        if n > 0 {
            let _ = write!(out, ", {n} {what}");
        }
    }
    out.push('\n');
    for (cause, n) in &trace.unread {
        let _ = writeln!(out, "not read: {n} {}", cause.words());
    }
    let ends = |c: &Connection| [c.a.to_string(), c.b.to_string()];
    let width = trace.connections.iter().flat_map(ends).map(|e| e.len()).max().unwrap_or(0).max(4);
    let _ = writeln!(
        out,
        "{:>4} {:width$} {:width$} {:>8} {:>11} {:>9} {:>7} {:>6} {:>5} {:>5} {:>5} {:>7} {:>8} {:>8}  {:8} end",
        "",
        "from",
        "to",
        "packets",
        "bytes",
        "Mbit/s",
        "rexmt",
        "fast",
        "rto",
        "tlp",
        "spur.",
        "reord.",
        "rtt p50",
        "p95 ms",
        "seen at"
    );
    for (i, c) in trace.connections.iter().enumerate() {
        for way in 0..2 {
            let (from, to) = if way == 0 { (c.a, c.b) } else { (c.b, c.a) };
            let half = &c.halves[way];
            let (n, r) = (&half.counts, &half.repairs.counts);
            let rtt = passive_rtt(c, way);
            let number = if way == 0 { (i + 1).to_string() } else { String::new() };
            let (from, to) = (from.to_string(), to.to_string());
            let _ = writeln!(
                out,
                "{number:>4} {from:width$} {to:width$} {:>8} {:>11} {:>9} {:>7} {:>6} {:>5} {:>5} {:>5} {:>7} {:>8} {:>8}  {:8} {}",
                n.packets,
                n.unique_octets,
                shown(goodput_bps(c, way).map(|b| b / 1e6), 3),
                n.again_packets,
                r.fast,
                r.rto,
                r.tlp,
                r.spurious,
                r.reordered,
                shown(rtt.map(|r| r.p50_ms), 2),
                shown(rtt.map(|r| r.p95_ms), 2),
                c.vantage(way).map_or("-", Vantage::word),
                if way == 0 { c.completeness().word() } else { "" },
            );
        }
    }
    out
}

/// Every figure of every connection, both directions side by side, as `tcptrace -lrW` lists them.
pub fn long_table(trace: &Trace) -> String {
    let mut out = String::new();
    for (i, c) in trace.connections.iter().enumerate() {
        let _ = writeln!(out, "TCP connection {}: {} - {}", i + 1, c.a, c.b);
        let _ = writeln!(out, "  complete conn: {}, elapsed {:.6} s", c.completeness().word(), c.elapsed_s());
        let _ = writeln!(out, "  {:28} {:>18} {:>18}", "", "a to b", "b to a");
        for (there, back) in fields(c, 0).iter().zip(fields(c, 1)) {
            let _ = writeln!(out, "  {:28} {:>18} {:>18}", there.label, dash(&there.value), dash(&back.value));
        }
        for ((name, there), (_, back)) in spelled(c, 0).iter().zip(spelled(c, 1)).skip(fields(c, 0).len()) {
            let dash = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
            let _ = writeln!(out, "  {name:28} {:>18} {:>18}", dash(there), dash(&back));
        }
        out.push('\n');
    }
    out
}

fn dash(value: &Value) -> String {
    match value {
        Value::Null => "NA".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Octets sent and received by each host, and the number of hosts per power of two of their ratio.
pub fn hosts_table(trace: &Trace) -> String {
    let hosts = trace.hosts.list();
    let width = hosts.iter().map(|h| h.address.to_string().len()).max().unwrap_or(0).max(4);
    let mut out = format!("{:width$} {:>14} {:>14} {:>14}\n", "host", "sent bytes", "received bytes", "received/sent");
    for h in &hosts {
        let ratio = shown(h.ratio(), 3);
        let address = h.address.to_string();
        let _ = writeln!(out, "{address:width$} {:>14} {:>14} {ratio:>14}", h.sent_bytes, h.received_bytes);
    }
    if trace.hosts.others_bytes > 0 {
        let _ = writeln!(out, "further hosts: {} bytes", trace.hosts.others_bytes);
    }
    if let Some(share) = trace.hosts.asymmetric_share() {
        let _ = writeln!(out, "{:.0} % of {} hosts have a ratio above 3 or below 1/3", share * 100.0, hosts.len());
    }
    let mut bins = std::collections::BTreeMap::<i32, usize>::new();
    for ratio in hosts.iter().filter_map(super::Host::ratio).filter(|r| *r > 0.0) {
        *bins.entry(ratio.log2().round() as i32).or_default() += 1;
    }
    for (power, n) in bins {
        let _ = writeln!(out, "log2(received/sent) {power:>4}: {n}");
    }
    out
}
