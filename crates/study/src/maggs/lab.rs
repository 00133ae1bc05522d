//! S0-E1, E4, E8, E10 to E16 and E21 between kernels: the shipped daemon's line, and what its rows have in common with closed forms.

use super::framing::{FRAMINGS, POLICY_BPS, of_policy};
use super::layer::{self, LAYERS, WHOLE};
use super::loss;
use super::net::{Chain, Down, Up, bound, plain};
use super::{RENO, Run, Seen, Task, rate};
use crate::cells::{Aim, Head};
use crate::document::Row;
use serde_json::{Value, json};

/// The part's name, and the rows' backend.
pub(super) const LAB: &str = "lab";
/// What the issue asks of the closed form.
const OF_FORM: (f64, f64) = (0.93, 1.02);
/// Seconds of a run: a second until it begins, and a fifth that is not counted.
const QUICK_S: u64 = 12;
const FULL_S: u64 = 20;
/// Seconds of a run whose losses are random.
const LOSSY_S: u64 = 30;
/// Octets of data in a packet of 1,500.
const OF_PACKET: f64 = 1_460.0 / 1_500.0;

/// What data crosses: Ethernet, or a full packet's time on the document's radio.
const DOWNS: [(&str, Down, f64); 2] =
    [("S0-E1", Down::Ethernet, 9.753e6), ("S0-E8", Down::RadioTime, super::net::RADIO_TIME_BPS)];

/// A line, and what the download reaches of the least that line and radio allow.
struct Case {
    id: &'static str,
    down: Down,
    down_bps: f64,
    framing: &'static str,
    bps: u64,
    way: String,
    /// Bits of an octet on the line.
    bits: u64,
    together: u32,
}

impl Case {
    fn line(id: &'static str, (down, down_bps): (Down, f64), framing: &'static str, bps: u64, together: u32) -> Self {
        let Up::Line { way, .. } = plain(framing, bps) else { unreachable!("a line") };
        Self { id, down, down_bps, framing, bps, way, bits: 10, together }
    }
    fn run(&self, seconds: u64) -> Run {
        let up = Up::Line { framing: self.framing, way: self.way.clone() };
        let chain = Chain { down: self.down, up, together: self.together, window: 22, seconds };
        Run::new(&chain.text().replace("start = \"2 s\"", "start = \"1 s\""), RENO, 0).real()
    }
    fn rows(&self, seen: &Seen) -> Vec<Row> {
        let mut case = vec![("framing", json!(self.framing)), ("ack_every", json!(self.together)), rate(self.bps)];
        if self.bits != 10 {
            case.push(("bits_per_octet", json!(self.bits)));
        }
        let head = head(self.id, &case, RENO);
        let form = bound(seen.ratio(), self.bps * 10 / self.bits, seen.octets_up()).min(self.down_bps * OF_PACKET);
        let share = seen.down_bps() / form;
        let row = head.row("of_form", "ratio", &[share]).bound_by(1.0);
        let row = match share > OF_FORM.1 {
            // No line carries more: a machine that was late when the counting began, and no longer at its end.
            true => row.inconclusive(format!("{share:.3}, more than the line has: this machine was late")),
            false => row.between(OF_FORM.0, OF_FORM.1),
        };
        let (ratio, octets, bad) = (seen.ratio(), seen.octets_up(), seen.up().bad);
        let words = format!("{ratio:.3} segments an acknowledgement, {octets:.1} octets each, {bad} frames bad");
        let mut rows = vec![row.noting(&words)];
        if self.id == "S0-E10"
            && let Some((_, least, most)) = FRAMINGS.iter().find(|(word, ..)| *word == self.framing)
        {
            rows.push(head.row("octets_per_ack", "B", &[seen.octets_up()]).between(*least, *most));
        }
        rows
    }
}

fn head(id: &'static str, case: &[(&str, Value)], stack: &str) -> Head {
    Head::new(id, LAB, case, stack)
}

pub(super) fn tasks(full: bool) -> Vec<Task> {
    let mut tasks = vec![lines(full)];
    if full {
        tasks.extend([policy(), lossy(), layers(), keys()]);
    }
    tasks
}

fn lines(full: bool) -> Task {
    let [(e1, ethernet, ethernet_bps), (e8, radio, radio_bps)] = DOWNS;
    let (wide, slow) = ((ethernet, ethernet_bps), (radio, radio_bps));
    let line = Case::line;
    let hdlc = |together| Case {
        way: "rate = \"64 kbit/s\", delay = \"10 ms\", synchronous = true".into(),
        bits: 8,
        ..line("S0-E11", (Down::Adsl, 1.5e6), "ppp", 64_000, together)
    };
    let cases: Vec<Case> = if full {
        let mut cases = Vec::new();
        for together in [1, 2] {
            cases.extend([9_600, 28_800, 57_600].map(|bps| line(e1, wide, "slip", bps, together)));
            let rates = [9_600, 14_400, 19_200, 28_800, 33_600, 38_400, 57_600, 115_200];
            cases.extend(rates.map(|bps| line(e8, slow, "slip", bps, together)));
            cases.push(hdlc(together));
        }
        cases.extend(FRAMINGS.map(|(framing, ..)| line("S0-E10", slow, framing, 9_600, 1)));
        cases
    } else {
        vec![
            line(e1, wide, "slip", 9_600, 1),
            line(e8, slow, "slip", 57_600, 1),
            line("S0-E10", slow, "cslip", 9_600, 1),
            hdlc(1),
        ]
    };
    let seconds = if full { FULL_S } else { QUICK_S };
    let runs = cases.iter().map(|case| case.run(seconds)).collect();
    let judge = move |seen: &[Seen]| cases.iter().zip(seen).flat_map(|(case, seen)| case.rows(seen)).collect();
    Task::new(LAB, runs, judge)
}

/// E21: how many segments Linux's own acknowledgements are for, where the radio's time binds.
fn policy() -> Task {
    let run = Run::new(&of_policy(Down::RadioTime, ""), RENO, 0).real();
    let judge = |seen: &[Seen]| {
        let row = head("S0-E21", &[("ack_every", json!("Linux's")), rate(POLICY_BPS)], RENO);
        vec![row.row("segments_per_ack", "segments", &[seen[0].ratio()])]
    };
    Task::new(LAB, vec![run], judge)
}

/// A run between kernels, and the same in the simulator.
fn both(text: &str, stack: &'static str) -> [Run; 2] {
    [Run::new(text, stack, 0).real(), Run::new(text, stack, 0)]
}

/// E12: acknowledgements that are lost cost nothing, data that is lost does.
fn lossy() -> Task {
    let cases = [(0, 0), (0, 10), (10, 0)];
    let runs = cases.iter().map(|(data, acks)| Run::new(&loss::text(LOSSY_S, *data, *acks, ""), RENO, 0).real());
    let judge = move |seen: &[Seen]| {
        let of = |((data, acks), seen): (&(u32, u32), &Seen), clean: f64| {
            let case =
                [("lost", json!(if *data > 0 { "data" } else { "acknowledgements" })), ("percent", json!(data + acks))];
            let row = head("S0-E12", &case, RENO).row("of_clean", "ratio", &[seen.down_bps() / clean]);
            if *acks > 0 { row.between(OF_FORM.0, OF_FORM.1) } else { row.judged(Aim::AtMost(0.5)) }
        };
        let clean = seen[0].down_bps();
        cases[1..].iter().zip(&seen[1..]).map(|case| of(case, clean)).collect()
    };
    Task::new(LAB, runs.collect(), judge)
}

/// E13: what the layer below TCP carries where one packet in ten is lost, beside the simulator.
fn layers() -> Task {
    let runs = LAYERS.iter().flat_map(|of| both(&layer::download_text(LOSSY_S, of), WHOLE)).collect();
    let judge = |seen: &[Seen]| {
        let of = |(of, seen): (&&str, &[Seen])| {
            let row = head("S0-E13", &[("layer", json!(of))], WHOLE);
            let row = row.row("of_simulator", "ratio", &[seen[0].down_bps() / seen[1].down_bps()]);
            row.between(OF_FORM.0, OF_FORM.1).noting(&format!("{:.2} Mbit/s", seen[0].down_bps() / 1e6))
        };
        LAYERS.iter().zip(seen.chunks(2)).map(of).collect()
    };
    Task::new(LAB, runs, judge)
}

/// E16: packets of which seven in ten are lost.
fn keys() -> Task {
    let runs = LAYERS.iter().map(|of| Run::new(&layer::keys_text(LOSSY_S + 2, of, 50, 2), WHOLE, 0).real()).collect();
    let judge = |seen: &[Seen]| {
        let mut rows = Vec::new();
        for (of, seen) in LAYERS.iter().zip(seen) {
            let head = head("S0-E16", &[("layer", json!(of)), ("lost_up", json!(0.7))], WHOLE);
            let (ping, keys) = (seen.flow("ping"), seen.flow("keys"));
            let mut packets = head.row("packets_over_1_s", "share", &[ping.slow as f64 / (ping.asked as f64).max(1.0)]);
            let p99 = head.row("echo_p99_ms", "ms", &keys.p99_ms.into_iter().collect::<Vec<_>>());
            if *of == LAYERS[0] {
                packets.bound = Some(0.0097);
                rows.push(packets.between(0.005, 0.02));
                rows.push(p99);
            } else {
                rows.extend([packets, p99.judged(Aim::AtMost(700.0))]);
            }
        }
        rows
    };
    Task::new(LAB, runs, judge)
}
