//! A connection's figures under the names that `tcptrace -lr --csv` prints, and further ones.

use super::connection::Connection;
use super::half::Half;
use serde_json::{Value, json};

/// A figure of one direction.
#[derive(Clone, PartialEq, Debug)]
pub struct Field {
    /// tcptrace's name of the column without `_a2b`.
    pub name: &'static str,
    /// Its label in tcptrace's long output, with the unit.
    pub label: &'static str,
    /// A number, a text, or null if unknown.
    pub value: Value,
}

fn field(name: &'static str, label: &'static str, value: impl Into<Value>) -> Field {
    Field { name, label, value: value.into() }
}

/// Rounds to nanoseconds where the unit is milliseconds; non-finite values become null.
fn number(value: f64) -> Value {
    if value.is_finite() { json!((value * 1e6).round() / 1e6) } else { Value::Null }
}

fn yes(it: bool) -> &'static str {
    if it { "Y" } else { "N" }
}

fn share(sum: u64, count: u64) -> u64 {
    sum.checked_div(count).unwrap_or(0)
}

/// All of tcptrace's fields of direction `way` (0: a to b), in its order.
pub fn fields(connection: &Connection, way: usize) -> Vec<Field> {
    let (this, that) = (&connection.halves[way], &connection.halves[1 - way]);
    let mut all = counts(this, that);
    all.extend(sizes(this, that, connection));
    all.extend(stream(this, connection));
    all.extend(round_trips(this));
    all.extend(repeats(this));
    all
}

fn counts(this: &Half, that: &Half) -> Vec<Field> {
    let c = &this.counts;
    vec![
        field("total_packets", "total packets", c.packets),
        field("resets_sent", "resets sent", c.resets),
        field("ack_pkts_sent", "ack pkts sent", c.acks),
        field("pure_acks_sent", "pure acks sent", c.pure_acks),
        field("sack_pkts_sent", "sack pkts sent", c.sack_segments),
        field("dsack_pkts_sent", "dsack pkts sent", c.dsack_segments),
        field("max_sack_blks/ack", "max sack blks/ack", c.most_sack_blocks),
        field("unique_bytes_sent", "unique bytes sent", c.unique_octets),
        field("actual_data_pkts", "actual data pkts", c.data_packets),
        field("actual_data_bytes", "actual data bytes", c.data_octets),
        field("rexmt_data_pkts", "rexmt data pkts", c.again_packets),
        field("rexmt_data_bytes", "rexmt data bytes", c.again_octets),
        field("zwnd_probe_pkts", "zwnd probe pkts", c.zero_window_probes),
        field("zwnd_probe_bytes", "zwnd probe bytes", c.zero_window_probe_octets),
        field("outoforder_pkts", "outoforder pkts", c.out_of_order),
        field("pushed_data_pkts", "pushed data pkts", c.pushed),
        field("SYN/FIN_pkts_sent", "SYN/FIN pkts sent", format!("{}/{}", c.syns, c.fins)),
        field(
            "req_1323_ws/ts",
            "req 1323 ws/ts",
            format!("{}/{}", yes(this.window_scale.is_some()), yes(this.timestamps)),
        ),
        field("adv_wind_scale", "adv wind scale", this.scale_in_use(that)),
        field("req_sack", "req sack", yes(this.sack_permitted)),
        field("sacks_sent", "sacks sent", c.sacks_sent),
        field("urgent_data_pkts", "urgent data pkts", c.urgent_packets),
        field("urgent_data_bytes", "urgent data bytes", c.urgent_octets),
    ]
}

fn sizes(this: &Half, that: &Half, connection: &Connection) -> Vec<Field> {
    let (c, w, o) = (&this.counts, &this.window, &this.outstanding);
    let average = match (w.scaled_packets, that.window.scaled_packets) {
        (Some(packets), Some(_)) => share(w.sum, packets),
        _ => share(w.sum, c.packets),
    };
    let elapsed_s = connection.elapsed_s();
    let weighted = if elapsed_s > 0.0 { json!((o.weighted / elapsed_s) as u64) } else { Value::Null };
    vec![
        field("mss_requested", "mss requested, bytes", this.mss),
        field("max_segm_size", "max segm size, bytes", c.largest),
        field("min_segm_size", "min segm size, bytes", c.smallest),
        field("avg_segm_size", "avg segm size, bytes", share(c.data_octets, c.data_packets)),
        field("max_win_adv", "max win adv, bytes", w.most),
        field("min_win_adv", "min win adv, bytes", w.least),
        field("zero_win_adv", "zero win adv, times", w.zeros),
        field("avg_win_adv", "avg win adv, bytes", average),
        field("max_owin", "max owin, bytes", o.most),
        field("min_non-zero_owin", "min non-zero owin, bytes", o.least),
        field("avg_owin", "avg owin, bytes", share(o.sum, o.samples)),
        field("wavg_owin", "wavg owin, bytes", weighted),
        field("initial_window_bytes", "initial window, bytes", c.initial_octets),
        field("initial_window_pkts", "initial window, pkts", c.initial_segments),
    ]
}

fn stream(this: &Half, connection: &Connection) -> Vec<Field> {
    let c = &this.counts;
    let length = this.syn.zip(this.fin).map(|(syn, fin)| fin.saturating_sub(syn + 1));
    let missed = length.map(|l| l.saturating_sub(c.unique_octets));
    let data_s = this.first_data_ns.map_or(0.0, |first| this.last_data_ns.saturating_sub(first) as f64 / 1e9);
    let idle = this.last_ns.map_or(Value::Null, |_| number(this.idle_ns as f64 / 1e6));
    let elapsed_s = connection.elapsed_s();
    vec![
        field("ttl_stream_length", "ttl stream length, bytes", length),
        field("missed_data", "missed data, bytes", missed),
        field("truncated_data", "truncated data, bytes", c.truncated_octets),
        field("truncated_packets", "truncated packets, pkts", c.truncated_packets),
        field("data_xmit_time", "data xmit time, secs", number(data_s)),
        field("idletime_max", "idletime max, ms", idle),
        field("hardware_dups", "hardware dups, segs", c.hardware_duplicates),
        field("throughput", "throughput, Bps", number(c.unique_octets as f64 / elapsed_s)),
    ]
}

fn round_trips(this: &Half) -> Vec<Field> {
    let (all, full) = (&this.rtt, &this.rtt_full);
    vec![
        field("RTT_samples", "RTT samples", all.count),
        field("RTT_min", "RTT min, ms", number(all.least_ms())),
        field("RTT_max", "RTT max, ms", number(all.most_ms())),
        field("RTT_avg", "RTT avg, ms", number(all.mean_ms())),
        field("RTT_stdev", "RTT stdev, ms", number(all.deviation_ms())),
        field("RTT_from_3WHS", "RTT from 3WHS, ms", number(this.handshake_ms.unwrap_or(0.0))),
        field("RTT_full_sz_smpls", "RTT full_sz smpls", full.count),
        field("RTT_full_sz_min", "RTT full_sz min, ms", number(full.least_ms())),
        field("RTT_full_sz_max", "RTT full_sz max, ms", number(full.most_ms())),
        field("RTT_full_sz_avg", "RTT full_sz avg, ms", number(full.mean_ms())),
        field("RTT_full_sz_stdev", "RTT full_sz stdev, ms", number(full.deviation_ms())),
    ]
}

fn repeats(this: &Half) -> Vec<Field> {
    let (c, last, retries) = (&this.counts, &this.rtt_last, &this.ledger.retries);
    vec![
        field("post-loss_acks", "post-loss acks", c.after_loss_acks),
        field("ambiguous_acks", "ambiguous acks", last.count),
        field("RTT_min_(last)", "RTT min (last), ms", number(last.least_ms())),
        field("RTT_max_(last)", "RTT max (last), ms", number(last.most_ms())),
        field("RTT_avg_(last)", "RTT avg (last), ms", number(last.mean_ms())),
        field("RTT_sdv_(last)", "RTT sdv (last), ms", number(last.deviation_ms())),
        field("segs_cum_acked", "segs cum acked", c.cumulative),
        field("duplicate_acks", "duplicate acks", c.duplicate_acks),
        field("triple_dupacks", "triple dupacks", c.triple_duplicates),
        field("max_#_retrans", "max # retrans", retries.most),
        field("min_retr_time", "min retr time, ms", number(retries.times.least_ms())),
        field("max_retr_time", "max retr time, ms", number(retries.times.most_ms())),
        field("avg_retr_time", "avg retr time, ms", number(retries.times.mean_ms())),
        field("sdv_retr_time", "sdv retr time, ms", number(retries.times.deviation_ms())),
    ]
}

/// Passive RTTs of a direction.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RoundTrips {
    /// `tsval` or `ack`: the method of measurement.
    pub source: &'static str,
    /// Number of samples.
    pub samples: u64,
    /// Quantiles in milliseconds.
    pub p50_ms: f64,
    /// See `p50_ms`.
    pub p95_ms: f64,
}

/// The RTT between the capture and the direction's receiver; `None` without a sample.
pub fn passive_rtt(connection: &Connection, way: usize) -> Option<RoundTrips> {
    let half = &connection.halves[way];
    let (source, q) = if half.by_tsval.count() > 0 { ("tsval", &half.by_tsval) } else { ("ack", &half.by_ack) };
    let at = |percent| q.quantile(percent, 100).map(|ns| ns as f64 / 1e6);
    Some(RoundTrips { source, samples: q.count(), p50_ms: at(50)?, p95_ms: at(95)? })
}

/// Goodput over the time in which the direction sent data, bit/s; `None` below two instants.
pub fn goodput_bps(connection: &Connection, way: usize) -> Option<f64> {
    let half = &connection.halves[way];
    let ns = half.last_data_ns.saturating_sub(half.first_data_ns?);
    (ns > 0).then(|| half.counts.unique_octets as f64 * 8e9 / ns as f64)
}
