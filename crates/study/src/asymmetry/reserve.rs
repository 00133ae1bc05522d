//! A metered lane in reserve, and the other lane failing: on a link that is idle, where nothing shows the failure until something
//! is sent, and in the middle of a transfer.

use super::net::{BULK, Lane, Way, scenario};
use super::outage::{MORE_THIN_MS, ROUNDS, worst_of_all};
use super::seen::{Seen, StackSeen};
use super::{ID, LAB, OURS, Task};
use crate::cells::{Aim, judge};
use crate::document::{Edition, Row};
use serde_json::json;

/// When the lane fails. A link that moved nothing for 30 s is idle, and its keepalive comes every 25 s.
const FAILS_S: u64 = 60;
/// When an idle link is used again, and with a transfer of how many kilobytes.
const USED_S: u64 = 70;
const IDLE_KB: u64 = 500;
/// A transfer that is not over when the lane fails.
const BUSY_FROM_S: u64 = 50;
const BUSY_KB: u64 = 12_000;
/// The lane is back.
const BACK_S: u64 = 90;
const UNTIL_S: u64 = 120;
/// Pauses count until this long after the failure.
const JUDGED_S: u64 = 10;

/// What goes on when the lane fails.
#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    IdleThenUpload,
    IdleThenDownload,
    Upload,
}

impl When {
    fn words(self) -> &'static str {
        match self {
            Self::IdleThenUpload => "idle, then an upload",
            Self::IdleThenDownload => "idle, then a download",
            Self::Upload => "an upload",
        }
    }

    /// The flow that is judged: what it does, and when it begins.
    fn flow(self) -> (&'static str, u64, u64) {
        match self {
            Self::IdleThenUpload => ("upload", USED_S, IDLE_KB),
            Self::IdleThenDownload => ("download", USED_S, IDLE_KB),
            Self::Upload => ("upload", BUSY_FROM_S, BUSY_KB),
        }
    }

    fn task(self, part: &'static str, seeds: u32) -> Task {
        let (app, start, kb) = self.flow();
        let folder = if part == LAB { "lab-reserve" } else { "reserve" };
        let name = match self {
            Self::Upload => format!("{folder}-busy"),
            Self::IdleThenUpload | Self::IdleThenDownload => format!("{folder}-idle-{app}"),
        };
        let [first, reserve] = [way(20), way(40)];
        let lanes =
            [("dsl", Lane::Both(first.without(&[(FAILS_S, BACK_S - FAILS_S)]))), ("mobile", Lane::Both(reserve))];
        let title = format!("a metered lane in reserve: {}", self.words());
        let ends = "from = \"client\"\nto = \"server\"\n";
        let text = scenario(&title, UNTIL_S, &[OURS], &lanes)
            + "[links.up]\nlanes = [\"dsl\", \"mobile\"]\nmetered = [\"mobile\"]\n"
            + &format!("[flows.before]\napp = \"upload\"\n{ends}size = \"100 kB\"\nstart = \"2 s\"\n")
            + &format!("[flows.{BULK}]\napp = \"{app}\"\n{ends}size = \"{kb} kB\"\nstart = \"{start} s\"\n");
        Task::new(part, vec![(name, text)], move |seen| self.rows(&seen[0])).seeds(seeds)
    }

    fn rows(self, seen: &Seen) -> Vec<Row> {
        let head = seen.head(ID, &[("metered reserve", json!(self.words()))], OURS);
        let found = seen.stack(OURS);
        let survives = |s: &StackSeen| s.bulk(|f| Some(f64::from(u8::from(f.completed && f.intact == Some(true)))));
        let whole = head.row("completed", "share", &found.map(survives).unwrap_or_default()).judged(Aim::AtLeast(1.0));
        let (metric, values) = match self {
            Self::Upload => {
                let until = (FAILS_S + JUDGED_S) as f64;
                ("longest_pause_ms", found.map(|s| s.longest_pause(FAILS_S as f64, until)))
            }
            Self::IdleThenUpload | Self::IdleThenDownload => {
                ("data_again_ms", found.map(|s| s.first_after(USED_S as f64)))
            }
        };
        let rtt_ms = way(20).delay_us as f64 / 1e3 * 2.0;
        let mut again = worst_of_all(&head, metric, found, values.unwrap_or_default());
        judge(&mut again, Aim::AtMost(ROUNDS * rtt_ms + MORE_THIN_MS));
        vec![whole, again]
    }
}

fn way(delay_ms: u64) -> Way {
    Way::new(4_000_000, delay_ms, "40 kB")
}

pub(super) fn tasks() -> Vec<Task> {
    [When::IdleThenUpload, When::IdleThenDownload, When::Upload].map(|when| when.task("outage", 5)).into()
}

/// Between kernels, in the full edition.
pub(super) fn lab_tasks(edition: Edition) -> Vec<Task> {
    if edition == Edition::Full { vec![When::IdleThenDownload.task(LAB, 1)] } else { Vec::new() }
}
