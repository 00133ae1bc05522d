//! S0-E15, E18 and E20: a home whose uplink meets stations that it cannot hear, a neighbour behind a second hop, a dead reverse radio.

use super::net::{DOWN, cell, download, tcp};
use super::{RENO, Run, Seen, Task};
use crate::cells::{Aim, Head};
use serde_json::json;
use std::path::Path;
use wavelane_base::{FrameMeta, Instant, Machine};
use wavelane_channel::wifi::{Category, Handling, Reach, Wifi, port};
use wavelane_measure::mean;
use wavelane_scenario::Scenario;

const PART: &str = "radio";
const SECONDS: u64 = 60;
/// Datagrams a second of either direction.
const PER_SECOND: f64 = 50.0;
const SIZE: f64 = 500.0;

pub(super) fn tasks(full: bool) -> Vec<Task> {
    vec![hidden(if full { 30 } else { 10 }), piggyback(), dead_reverse()]
}

/// E15: without others, with others that the home does not hear, and with others that it senses and that do not hear it.
fn hidden(seeds: u64) -> Task {
    const CASES: [(&str, &str, bool); 3] =
        [("nobody", "none", false), ("hidden", "none", true), ("sensed by the home", "sense", true)];
    let text = |hear: &str, others: bool| {
        let flow = |name: &str, from: &str, to: &str, every: &str| {
            format!(
                "[flows.{name}]\napp = \"cbr\"\nfrom = \"{from}\"\nto = \"{to}\"\nsize = \"500 B\"\nevery = \"{every}\"\n"
            )
        };
        let mut text = format!(
            "title = \"A home and stations of the campus\"\nduration = \"{SECONDS} s\"\nstacks = [\"udp\"]\n[nodes]\ncampus = \"endpoint\"\n\
             home = \"endpoint\"\nx = \"endpoint\"\ny = \"endpoint\"\n{}reach = \"all\"\npairs = [\n\
             {{ from = \"home\", to = \"x\", hear = \"none\" }},\n{{ from = \"home\", to = \"y\", hear = \"none\" }},\n\
             {{ from = \"x\", to = \"home\", hear = \"{hear}\" }},\n{{ from = \"y\", to = \"home\", hear = \"{hear}\" }},\n]\n",
            cell("air", "\"campus\", \"home\", \"x\", \"y\"")
        );
        text += &flow("up", "home", "campus", "20 ms");
        text += &flow(DOWN, "campus", "home", "20 ms");
        if others {
            text += &flow("others", "x", "y", "9 ms");
        }
        text
    };
    let mut runs = Vec::new();
    for (_, hear, others) in CASES {
        runs.extend((0..seeds).map(|seed| Run::new(&text(hear, others), "udp", seed)));
    }
    let judge = move |seen: &[Seen]| {
        let sent = PER_SECOND * SECONDS as f64;
        let lost = |seen: &Seen, flow: &str| (1.0 - seen.flow(flow).bytes as f64 / SIZE / sent).max(0.0);
        let mut rows = Vec::new();
        for ((word, ..), seen) in CASES.into_iter().zip(seen.chunks(seeds as usize)) {
            let head = Head::sim("S0-E15", &[("others", json!(word))], "udp");
            let [up, down] = ["up", DOWN].map(|flow| seen.iter().map(|seen| lost(seen, flow)).collect::<Vec<_>>());
            let ratio: Vec<f64> = up.iter().zip(&down).map(|(up, down)| up / down.max(1.0 / sent)).collect();
            let (down, ratio) = (head.row("loss_down", "share", &down), head.row("loss_up_over_down", "ratio", &ratio));
            rows.push(head.row("loss_up", "share", &up));
            if word == "nobody" {
                rows.push(down);
            } else {
                rows.extend([down.judged(Aim::Below(0.01)), ratio.judged(Aim::Above(10.0))]);
            }
        }
        rows
    };
    Task::new(PART, runs, judge)
}

/// Segments acknowledged together, and seeds of each.
const EVERY: [u32; 2] = [1, 2];
const SEEDS: usize = 5;

/// E18: a neighbour behind the home, over another radio or over the same one.
fn piggyback() -> Task {
    let text = |same: bool, hops: usize, flows: &str| {
        let mut text = format!(
            "title = \"A neighbour behind the home\"\nduration = \"60 s\"\nstacks = [\"tcp-reno\", \"udp\"]\n[nodes]\ncampus = \"endpoint\"\n\
             home = \"{}\"\n{}",
            if hops == 1 { "endpoint" } else { "router" },
            if hops == 1 { "" } else { "neighbour = \"endpoint\"\n" }
        );
        text += &match (hops, same) {
            (1, _) => cell("air", "\"campus\", \"home\""),
            (_, true) => {
                cell("air", "\"campus\", \"home\", \"neighbour\"")
                    + "pairs = [{ between = [\"campus\", \"neighbour\"], hear = \"sense+interfere\" }]\n"
            }
            (_, false) => cell("air", "\"campus\", \"home\"") + &cell("second", "\"home\", \"neighbour\""),
        };
        text + flows
    };
    let bulk = |to: &str, together: u32| tcp(together, 12) + &download(to, "campus");
    let ping = |from: &str| {
        format!(
            "[flows.ping]\napp = \"ping\"\nfrom = \"{from}\"\nto = \"campus\"\nsize = \"64 B\"\nevery = \"100 ms\"\n"
        )
    };
    let mut runs = Vec::new();
    for (same, hops, end) in [(false, 1, "home"), (false, 2, "neighbour"), (true, 2, "neighbour")] {
        for together in EVERY {
            runs.extend((0..SEEDS).map(|seed| Run::new(&text(same, hops, &bulk(end, together)), RENO, seed as u64)));
        }
        runs.push(Run::new(&text(same, hops, &ping(end)), "udp", 0));
    }
    let judge = |seen: &[Seen]| {
        let mut rows = Vec::new();
        let of: Vec<&[Seen]> = seen.chunks(EVERY.len() * SEEDS + 1).collect();
        let rtt = |seen: &[Seen]| seen.last().and_then(|seen| seen.flow("ping").p50_ms).unwrap_or(f64::NAN);
        for (word, two) in [("another", of[1]), ("the same", of[2])] {
            for (place, together) in EVERY.into_iter().enumerate() {
                let bps =
                    |of: &[Seen]| mean(&of[place * SEEDS..][..SEEDS].iter().map(Seen::down_bps).collect::<Vec<_>>());
                let ratio: Vec<f64> = bps(two).zip(bps(of[0])).map(|(two, one)| two / one).into_iter().collect();
                let case = [("second_hop", json!(word)), ("ack_every", json!(together))];
                let share = Head::sim("S0-E18", &case, RENO).row("of_one_hop", "ratio", &ratio);
                // The document's receivers acknowledged every segment.
                rows.push(match (word, together) {
                    ("another", 1) => share.judged(Aim::AtLeast(0.97)),
                    ("the same", 1) => share.between(0.4, 0.55),
                    _ => share,
                });
            }
            let added = Head::sim("S0-E18", &[("second_hop", json!(word))], "udp").row(
                "rtt_added_ms",
                "ms",
                &[rtt(two) - rtt(of[0])],
            );
            rows.push(if word == "another" { added.judged(Aim::Below(10.0)) } else { added });
        }
        rows
    };
    Task::new(PART, runs, judge)
}

/// E20: a card that waits for acknowledgements which its receiver cannot send, and one that does not.
fn dead_reverse() -> Task {
    let judge = |_: &[Seen]| {
        let case =
            |dead: bool, card: &str| [("reverse", json!(if dead { "dead" } else { "alive" })), ("card", json!(card))];
        let kinds =
            [("802.11", "phy = \"dsss\"\nrate = \"2 Mbit/s\""), ("WaveLAN", "phy = \"wavelan\"\nrate = \"2 Mbit/s\"")];
        let mut rows = Vec::new();
        let mut dead = Vec::new();
        for (card, phy) in kinds {
            for is_dead in [false, true] {
                let carried = carried(phy, is_dead);
                rows.push(Head::sim("S0-E20", &case(is_dead, card), "udp").row(
                    "goodput_bps",
                    "bit/s",
                    carried.as_slice(),
                ));
                dead.extend(carried.filter(|_| is_dead));
            }
        }
        let ratio: Vec<f64> = dead.chunks(2).filter(|pair| pair.len() == 2).map(|pair| pair[0] / pair[1]).collect();
        let row = Head::sim("S0-E20", &[("reverse", json!("dead"))], "udp")
            .row("with_acks_over_without", "ratio", &ratio)
            .bound_by(1.0 / 7.0);
        rows.push(row.judged(Aim::AtMost(1.0 / 7.0)));
        rows
    };
    Task::new(PART, Vec::new(), judge)
}

/// What one station that always has frames carries to another, whose own frames nobody hears if it is `dead`.
fn carried(phy: &str, dead: bool) -> Option<f64> {
    const FRAME: usize = 1_500;
    let text = format!(
        "title = \"Two stations\"\nduration = \"20 s\"\nstacks = [\"udp\"]\n[nodes]\na = \"endpoint\"\nb = \"endpoint\"\n[channels.air]\n\
         kind = \"wifi\"\nnodes = [\"a\", \"b\"]\n{phy}\n[flows.f]\napp = \"saturate\"\nfrom = \"a\"\nto = \"b\"\nsize = \"1 kB\"\n"
    );
    let scenario = Scenario::parse(&text, Path::new(".")).ok()?;
    let mut config = scenario.channels.first()?.cell()?.clone();
    if dead {
        config.reach.set(1, 0, Reach::default()).ok()?;
    }
    let mut cell = Wifi::new(scenario.seed, "air", &config).ok()?;
    let (end, mut now, mut octets) = (Instant::ZERO + scenario.duration, Instant::ZERO, 0);
    let mut frame = Vec::new();
    while now < end {
        while cell.waiting_in(0, Category::BestEffort) < 4 {
            cell.hand_in(now, port(0, 1), &[0; FRAME], FrameMeta::default(), Handling::default());
        }
        while cell.poll_event().is_some() {}
        while cell.next_ready().is_some() {
            frame.clear();
            cell.take_ready(now, &mut frame)?;
            octets += frame.len();
        }
        now = cell.poll_timeout()?.at;
        cell.handle_timeout(now);
    }
    Some(octets as f64 * 8.0 / scenario.duration.as_secs_f64())
}
