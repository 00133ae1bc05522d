//! Return paths that carry a hundredth of the forward path and less: what returns is acknowledgements.

use super::net::{Lane, Way, bulk, echo, scenario};
use super::seen::Seen;
use super::{ID, LAB, OURS, STACKS, Task};
use crate::cells::{Aim, joined};
use crate::document::{Edition, Row};
use serde_json::{Value, json};

/// Seconds of the transfer that count at most, its start among them.
const COUNTED_S: f64 = 120.0;
/// In the laboratory, which runs in real time, in the quick edition. The start costs half a second, so that a shorter run makes the
/// aim harder to reach; there are twice the fewest echoes that count.
const LAB_SECONDS: u64 = 35;
/// Fifty echoes without load, whose median is asked for.
const LAB_IDLE_SECONDS: u64 = 10;
/// Echoes count from this second on.
const ECHO_FROM_S: f64 = 5.0;
/// IP bits of a full packet over its payload, as TCP with timestamps carries it.
pub(super) const FULL_OVER_PAYLOAD: f64 = 1_500.0 / 1_448.0;
/// The fewest echoes whose 95th percentile is meaningful.
const ECHOES_MIN: usize = 150;

/// A return path, and the aims for it.
#[derive(Clone, Copy)]
struct Thin {
    /// Which part of the study it belongs to, and what it is compared with.
    part: &'static str,
    stacks: &'static [&'static str],
    out_bps: u64,
    back_bps: u64,
    delay_ms: u64,
    queues: [&'static str; 2],
    /// One of several that differ in the queue of the return path.
    sweeps: bool,
    seconds: u64,
    echo_every_ms: Option<u64>,
    share: f64,
    echo_times: f64,
    /// Bytes back per delivered megabyte, or share of the return path.
    back: Back,
}

#[derive(Clone, Copy)]
enum Back {
    PerMegabyte(f64),
    Share(f64),
}

const MODEM: Thin = Thin {
    part: "thin",
    stacks: &STACKS,
    out_bps: 2_000_000,
    back_bps: 33_600,
    delay_ms: 50,
    queues: ["50 kB", "16 kB"],
    sweeps: false,
    seconds: 125,
    echo_every_ms: Some(100),
    share: 0.95,
    echo_times: 1.5,
    back: Back::Share(0.25),
};
/// A modem whose return path, and one of 1,200 bit/s, has a queue of this length.
const fn queued(queue: &'static str) -> [Thin; 2] {
    let modem = Thin { queues: ["50 kB", queue], stacks: &[OURS], sweeps: true, ..MODEM };
    [modem, Thin { back_bps: 1_200, echo_every_ms: None, share: 0.90, back: Back::PerMegabyte(400.0), ..modem }]
}
const QUEUES: [&str; 4] = ["1500 B", "3 kB", "6 kB", "64 kB"];
const ROWS: [Thin; 4] = [
    MODEM,
    Thin { back_bps: 9_600, seconds: 165, echo_every_ms: Some(1_000), echo_times: 1.6, ..MODEM },
    Thin { back_bps: 1_200, echo_every_ms: None, share: 0.90, back: Back::PerMegabyte(400.0), ..MODEM },
    // A cable or satellite plan: 600 to one.
    Thin {
        out_bps: 300_000_000,
        back_bps: 500_000,
        delay_ms: 20,
        queues: ["1500 kB", "50 kB"],
        seconds: 25,
        echo_every_ms: Some(100),
        share: 0.9,
        echo_times: 2.0,
        ..MODEM
    },
];

impl Thin {
    fn lanes(&self) -> [(&'static str, Lane); 1] {
        let [out, back] = [(self.out_bps, self.queues[0]), (self.back_bps, self.queues[1])]
            .map(|(bps, queue)| Way::new(bps, self.delay_ms, queue));
        [("air", Lane::Ways(out, back))]
    }

    /// Seconds of the run that count.
    fn counted(&self) -> f64 {
        COUNTED_S.min(self.seconds as f64)
    }

    fn task(self) -> Task {
        let queue = if self.sweeps { format!("-{}", self.queues[1].replace(' ', "")) } else { String::new() };
        let name = format!("{}-{}{queue}", if self.part == LAB { "lab-thin" } else { self.part }, self.back_bps);
        let title = format!("{} bit/s back of {} bit/s", self.back_bps, self.out_bps);
        let asked = self.echo_every_ms.map(|every| echo(64, every));
        let loaded = scenario(&title, self.seconds, self.stacks, &self.lanes())
            + &bulk(None)
            + &asked.clone().unwrap_or_default();
        let mut runs = vec![(name.clone(), loaded)];
        if let Some(asked) = asked {
            let alone = if self.part == LAB { &["tcp-cubic"][..] } else { &[OURS, "tcp-cubic"] };
            let seconds = if self.part == LAB { self.seconds.min(LAB_IDLE_SECONDS) } else { self.seconds };
            let idle = scenario(&format!("{title}, idle"), seconds, alone, &self.lanes()) + &asked;
            runs.push((format!("{name}-idle"), idle));
        }
        let seeds = if self.part == LAB { 1 } else { 3 };
        Task::new(self.part, runs, move |seen| self.rows(seen)).seeds(seeds)
    }

    fn case(&self) -> Vec<(&'static str, Value)> {
        let queue = self.sweeps.then(|| ("back_queue", json!(self.queues[1])));
        [("out_bps", json!(self.out_bps)), ("back_bps", json!(self.back_bps))].into_iter().chain(queue).collect()
    }

    fn rows(&self, seen: &[Seen]) -> Vec<Row> {
        let case = self.case();
        let (loaded, idle) = (&seen[0], seen.get(1));
        // Of what waits for nothing: a plain TCP's echo.
        let plain = idle.and_then(|idle| idle.stack("tcp-cubic"));
        let unloaded = plain.map(|s| s.echo(50, ECHO_FROM_S, self.seconds as f64)).unwrap_or_default();
        let mut rows = Vec::new();
        for &stack in self.stacks {
            let ours = stack == OURS;
            let head = loaded.head(ID, &case, stack);
            let Some(found) = loaded.stack(stack) else {
                if ours {
                    rows.push(head.row("limit_share", "ratio", &[]).judged(Aim::AtLeast(self.share)));
                }
                continue;
            };
            let goodput = found.goodput(0.0, self.counted());
            let share: Vec<f64> = goodput.iter().map(|bps| bps * FULL_OVER_PAYLOAD / self.out_bps as f64).collect();
            let mut made = vec![(head.row("limit_share", "ratio", &share), Aim::AtLeast(self.share))];
            made[0].0.bound = Some(1_437.0 / 1_448.0);
            if self.echo_every_ms.is_some() {
                let p95 = found.echo(95, ECHO_FROM_S, self.seconds as f64);
                let times = joined(&p95, &unloaded, |p95, p50| p95 / p50);
                let row = head.row("echo_p95_over_unloaded", "ratio", &times).bound_by(1.0);
                made.push((row, Aim::AtMost(self.echo_times)));
                let count = found.echo_count(ECHO_FROM_S, self.seconds as f64) as f64;
                made.push((head.row("echoes", "echoes", &[count]), Aim::AtLeast(ECHOES_MIN as f64)));
            }
            made.extend(self.back_row(loaded, idle, stack));
            rows.extend(made.into_iter().map(|(row, aim)| if ours { row.judged(aim) } else { row }));
        }
        rows
    }

    /// What returns beside the echo.
    fn back_row(&self, loaded: &Seen, idle: Option<&Seen>, stack: &str) -> Option<(Row, Aim)> {
        let head = loaded.head(ID, &self.case(), stack);
        let found = loaded.stack(stack)?;
        let back = found.offered("air", "reverse");
        match self.back {
            Back::PerMegabyte(most) => {
                let megabytes = found.bulk(|f| Some(f.bytes as f64 / 1e6));
                let values = joined(&back, &megabytes, |back, mb| back / mb);
                Some((head.row("back_bytes_per_delivered_mb", "B", &values), Aim::AtMost(most)))
            }
            // The laboratory does not count by direction.
            Back::Share(_) if back.is_empty() => None,
            Back::Share(most) => {
                let echoes = idle.and_then(|idle| idle.stack(stack))?.offered("air", "reverse");
                let whole = self.back_bps as f64 / 8.0 * self.seconds as f64;
                let values = joined(&back, &echoes, |back, echoes| (back - echoes) / whole);
                Some((head.row("back_share_beside_echo", "ratio", &values), Aim::AtMost(most)))
            }
        }
    }
}

/// The modem's row between kernels, beside a tunnel.
pub(super) fn lab_tasks(edition: Edition) -> Vec<Task> {
    let quick: &[&str] = &[OURS, "boringtun-bbr", "kcptun-fast3"];
    let full: &[&str] = &[OURS, "boringtun-bbr", "boringtun-cubic", "kcptun-fast3", "tcp-bbr"];
    let modem = Thin { part: LAB, stacks: quick, seconds: LAB_SECONDS, ..MODEM };
    let all = [modem, Thin { seconds: 65, stacks: full, ..modem }];
    let chosen = if edition == Edition::Full { &all[1..] } else { &all[..1] };
    chosen.iter().map(|thin| thin.task()).collect()
}

pub(super) fn tasks() -> Vec<Task> {
    ROWS.into_iter().chain(QUEUES.into_iter().flat_map(queued)).map(Thin::task).collect()
}
