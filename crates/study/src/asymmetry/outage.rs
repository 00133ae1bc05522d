//! Outages of half a minute and of five, of one lane, of both, and of one direction of each: what flows survive, and how soon
//! data flows again.

use super::net::{BULK, Lane, Way, bulk, scenario};
use super::seen::{Seen, StackSeen};
use super::{ID, LAB, OURS, Task};
use crate::cells::{Aim, Head, judge};
use crate::document::{Edition, Row};
use serde_json::json;

/// When it begins.
const AT_S: u64 = 10;
/// Lane-seconds of upload after the outage: in the simulator, and in the laboratory, where pauses are judged for [`JUDGED_AFTER_S`].
const AFTER_LANE_S: f64 = 40.0;
const LAB_AFTER_LANE_S: f64 = 16.0;
/// Pauses count until this long after the outage.
const JUDGED_AFTER_S: f64 = 5.0;
/// Data flows again within this many round trips and this much more.
pub(super) const ROUNDS: f64 = 1.5;
const MORE_MS: f64 = 250.0;
/// On a lane as slow as a modem, and on a metered one, which is seldom probed.
pub(super) const MORE_THIN_MS: f64 = 1_000.0;

/// What is out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Out {
    One,
    Both,
    /// The forward path of one lane and the return path of the other.
    Halves,
}

#[derive(Clone, Copy)]
struct Outage {
    lasts_s: u64,
    out: Out,
    thin: bool,
    after_lane_s: f64,
}

impl Outage {
    fn way(self) -> Way {
        if self.thin { Way::new(33_600, 50, "16 kB") } else { Way::new(4_000_000, 20, "40 kB") }
    }

    fn words(self) -> &'static str {
        match (self.thin, self.out) {
            (true, Out::One) => "one of two lanes of 33.6 kbit/s",
            (true, Out::Both) => "both lanes of 33.6 kbit/s",
            (true, Out::Halves) => "one direction of each of two lanes of 33.6 kbit/s",
            (false, Out::One) => "one of two lanes of 4 Mbit/s",
            (false, Out::Both) => "both lanes of 4 Mbit/s",
            (false, Out::Halves) => "one direction of each of two lanes of 4 Mbit/s",
        }
    }

    /// Megabytes that last beyond the outage, and for some seconds more.
    fn size(self) -> f64 {
        let left = if self.out == Out::Both { 0.0 } else { 1.0 };
        let lanes = 2.0 * AT_S as f64 + left * self.lasts_s as f64 + self.after_lane_s;
        self.way().bps as f64 / 8e6 * lanes
    }

    fn ends(self) -> f64 {
        (AT_S + self.lasts_s) as f64
    }

    fn task(self, part: &'static str, seeds: u32) -> Task {
        let kind = if self.thin { "thin-" } else { "" };
        let folder = if part == LAB { "lab-outage" } else { part };
        let (there, gone) = (self.way(), self.way().without(&[(AT_S, self.lasts_s)]));
        let (what, [one, two]) = match self.out {
            Out::One => ("1-of-2", [there, gone].map(Lane::Both)),
            Out::Both => ("2-of-2", [gone.clone(), gone].map(Lane::Both)),
            Out::Halves => ("halves", [Lane::Ways(gone.clone(), there.clone()), Lane::Ways(there, gone)]),
        };
        let name = format!("{folder}-{kind}{what}-{}s", self.lasts_s);
        let title = format!("{} out for {} s", self.words(), self.lasts_s);
        let size = format!("{} kB", (self.size() * 1e3).round());
        let until = AT_S + self.lasts_s + 90;
        let text = scenario(&title, until, &[OURS], &[("one", one), ("two", two)]) + &bulk(Some(&size));
        Task::new(part, vec![(name, text)], move |seen| self.rows(&seen[0])).seeds(seeds)
    }

    fn rows(self, seen: &Seen) -> Vec<Row> {
        let case = [("out", json!(self.words())), ("lasts_s", json!(self.lasts_s))];
        let head = seen.head(ID, &case, OURS);
        let found = seen.stack(OURS);
        let survives = |s: &StackSeen| s.bulk(|f| Some(f64::from(u8::from(f.completed && f.intact == Some(true)))));
        let whole = head.row("completed", "share", &found.map(survives).unwrap_or_default()).judged(Aim::AtLeast(1.0));
        // Of a full packet.
        let way = self.way();
        let rtt_ms = way.delay_us as f64 / 1e3 * 2.0 + 12_000.0 / way.bps as f64 * 1e3;
        let within = ROUNDS * rtt_ms + if self.thin { MORE_THIN_MS } else { MORE_MS };
        let (metric, values) = if self.out == Out::Both {
            ("data_again_ms", found.map(|s| s.first_after(self.ends())))
        } else {
            // From just before it begins to a while after it is over: the other lane goes on.
            ("longest_pause_ms", found.map(|s| s.longest_pause(AT_S as f64, self.ends() + JUDGED_AFTER_S)))
        };
        let mut again = worst_of_all(&head, metric, found, values.unwrap_or_default());
        judge(&mut again, Aim::AtMost(within));
        vec![whole, again]
    }
}

/// The limit must hold in every run, not only on average: there is a value if each run of the bulk flow has one.
pub(super) fn worst_of_all(head: &Head, metric: &str, found: Option<&StackSeen>, values: Vec<f64>) -> Row {
    let runs = found.map_or(0, |s| s.result.flows.iter().filter(|flow| flow.flow == BULK).count());
    let mut row = head.row(metric, "ms", &values);
    let worst = values.iter().copied().reduce(f64::max).filter(|_| values.len() == runs);
    row.value = worst;
    row.ci95 = None;
    row
}

/// Between kernels: one of the lanes and shorter in the quick edition, either in the full one.
pub(super) fn lab_tasks(edition: Edition) -> Vec<Task> {
    let full = edition == Edition::Full;
    let (outs, lasts_s): (&[Out], _) = if full { (&[Out::One, Out::Both], 30) } else { (&[Out::One], 10) };
    outs.iter().map(|&out| Outage { lasts_s, out, thin: false, after_lane_s: LAB_AFTER_LANE_S }.task(LAB, 1)).collect()
}

pub(super) fn tasks() -> Vec<Task> {
    let mut all = Vec::new();
    for thin in [false, true] {
        for out in [Out::One, Out::Both] {
            for lasts_s in [30, 300] {
                all.push(Outage { lasts_s, out, thin, after_lane_s: AFTER_LANE_S }.task("outage", 5));
            }
        }
    }
    // For longer than the lifetime of keys.
    let halves = Outage { lasts_s: 300, out: Out::Halves, thin: false, after_lane_s: AFTER_LANE_S };
    all.push(halves.task("outage", 5));
    all
}
