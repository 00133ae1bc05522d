//! Thin ways back of today: a subscriber's line, a cellular link whose answers go by satellite, a modem of the nineties.

use super::net::gateways;
use super::{Run, Seen, Task, each};
use crate::cells::{Aim, Head};
use crate::document::Row;
use serde_json::json;
use wavelane_measure::mean;

const PART: &str = "today";
const OURS: &str = "wavelane";
const STACKS: [&str; 4] = [OURS, "wavelane+unsplit", "tcp-cubic", "tcp-bbr"];
const SEEDS: u64 = 3;

/// A link, how long it is looked at, and the time between echoes.
struct Case {
    name: &'static str,
    channel: &'static str,
    seconds: u64,
    echo_ms: u64,
    /// The way back is what binds a TCP.
    thin: bool,
    /// What TCP end to end is told: a simulated router tells nobody that a packet is too long for the next line.
    tcp: &'static str,
}

const CASES: [Case; 3] = [
    Case {
        name: "300/0.5 Mbit/s",
        channel: "forward = { rate = \"300 Mbit/s\", delay = \"10 ms\", queue = \"750 kB\" }\n\
                  reverse = { rate = \"500 kbit/s\", delay = \"10 ms\", queue = \"16 kB\" }\n",
        seconds: 20,
        echo_ms: 100,
        thin: true,
        tcp: "",
    },
    // What LTE's mean is on a moving terminal, and an Iridium channel up.
    Case {
        name: "LTE down, 9.6 kbit/s satellite up",
        channel: "forward = { rate = \"20 Mbit/s\", delay = \"35 ms\", queue = \"250 kB\" }\n\
                  reverse = { rate = \"9600 bit/s\", delay = \"300 ms\", queue = \"8 kB\" }\n",
        seconds: 120,
        echo_ms: 3_000,
        thin: true,
        tcp: "",
    },
    Case {
        name: "33.6 kbit/s modem",
        channel: "kind = \"serial\"\nframing = \"ppp+vj\"\nmtu = \"576 B\"\nforward = { rate = \"33600 bit/s\", modem = {}, queue = \"16 kB\" }\n\
                  reverse = \"same\"\n",
        seconds: 120,
        echo_ms: 1_000,
        thin: false,
        tcp: "[tcp]\nsegment = \"536 B\"\n",
    },
];

impl Case {
    fn text(&self) -> String {
        let Self { name, channel, seconds, echo_ms, tcp, .. } = self;
        let rest = format!(
            "[channels.air]\nbetween = [\"far\", \"near\"]\n{channel}[flows.down]\napp = \"download\"\nfrom = \"client\"\nto = \"server\"\n\
             start = \"2 s\"\n[flows.echo]\napp = \"echo\"\nfrom = \"client\"\nto = \"server\"\nevery = \"{echo_ms} ms\"\nsize = \"64 B\"\n\
             start = \"2 s\"\n{tcp}"
        );
        gateways(name, *seconds, &STACKS, ["client", "near", "far", "server"], &rest)
    }
}

pub(super) fn tasks() -> Vec<Task> {
    CASES.iter().map(task).collect()
}

fn task(case: &'static Case) -> Task {
    let text = case.text();
    let runs = STACKS.iter().flat_map(|stack| (0..SEEDS).map(|seed| Run::new(&text, stack, seed))).collect();
    let judge = |seen: &[Seen]| {
        let link = ("link", json!(case.name));
        let of: Vec<(&str, Vec<f64>, Vec<f64>)> = STACKS
            .into_iter()
            .zip(seen.chunks(SEEDS as usize))
            .map(|(stack, seen)| {
                let echoes = seen.iter().filter_map(|seen| seen.flow("echo").p95_ms).collect();
                (stack, each(seen, Seen::down_bps), echoes)
            })
            .collect();
        let mut rows: Vec<Row> = Vec::new();
        for (stack, goodput, echo) in &of {
            let head = Head::sim("today", core::slice::from_ref(&link), stack);
            rows.extend([head.row("goodput_bps", "bit/s", goodput), head.row("echo_p95_ms", "ms", echo)]);
        }
        let tcps = &of[2..];
        let most = tcps.iter().filter_map(|(_, goodput, _)| mean(goodput)).fold(0.0, f64::max);
        let least = tcps.iter().filter_map(|(_, _, echo)| mean(echo)).fold(f64::INFINITY, f64::min);
        let head = Head::sim("today", core::slice::from_ref(&link), OURS);
        let over = |values: &[f64], other: f64| values.iter().map(|value| value / other).collect::<Vec<f64>>();
        let (goodput, echo) = (&of[0].1, &of[0].2);
        let gain = head.row("over_best_tcp", "ratio", &over(goodput, most));
        rows.push(if case.thin { gain.judged(Aim::AtLeast(1.0)) } else { gain });
        rows.push(head.row("echo_over_best_tcp", "ratio", &over(echo, least)).judged(Aim::AtMost(1.0)));
        rows
    };
    Task::new(PART, runs, judge)
}
