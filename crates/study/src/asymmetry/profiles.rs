//! The sixteen two-path profiles of mqvpn's report on reordering (2026-06-18), with one setting.
//!
//! Its paths are netem's: delay, jitter and loss each way, at most 1,000 packets waiting. Normal jitter is drawn evenly here, from
//! an interval of the same standard deviation, cut off at no delay. The report's figures are those of a QUIC transfer of 20 MiB.

use super::bond::{Compared, runs};
use super::net::Way;
use super::seen::Seen;
use super::{FULL_SEEDS, Task};
use crate::document::{Edition, Row};
use serde_json::json;

/// Mbit/s, delay each way in ms, standard deviation of its jitter in ms, loss in thousandths.
type Path = (u64, u64, u64, u32);

struct Profile {
    name: &'static str,
    paths: [Path; 2],
    /// What the report has, in Mbit/s: the better path alone, and both in the best of four settings.
    published: [f64; 2],
}

const fn profile(name: &'static str, one: Path, two: Path, published: [f64; 2]) -> Profile {
    Profile { name, paths: [one, two], published }
}

const PROFILES: [Profile; 16] = [
    profile("baseline", (50, 20, 0, 0), (50, 20, 0, 0), [40.6, 73.9]),
    profile("rtt-40", (50, 20, 0, 0), (50, 40, 0, 0), [40.5, 45.7]),
    profile("rtt-70", (50, 20, 0, 0), (50, 70, 0, 0), [40.6, 40.2]),
    profile("rtt-120", (50, 20, 0, 0), (50, 120, 0, 0), [40.7, 40.6]),
    profile("rtt-320", (50, 20, 0, 0), (50, 320, 0, 0), [40.3, 40.1]),
    profile("jitter-5", (50, 20, 5, 0), (50, 20, 5, 0), [38.8, 55.7]),
    profile("jitter-20", (50, 20, 20, 0), (50, 20, 20, 0), [17.4, 37.6]),
    profile("loss-05", (50, 20, 0, 5), (50, 20, 0, 5), [32.2, 70.7]),
    profile("loss-2", (50, 20, 0, 20), (50, 20, 0, 20), [16.3, 29.0]),
    profile("rates-4to1", (50, 20, 0, 0), (12, 20, 0, 0), [40.6, 39.9]),
    profile("rates-10to1", (100, 20, 0, 0), (10, 20, 0, 0), [74.2, 70.1]),
    profile("dual-lte", (40, 30, 5, 5), (25, 45, 8, 5), [29.6, 29.6]),
    profile("fibre-lte", (300, 8, 0, 0), (30, 40, 8, 5), [212.4, 212.3]),
    profile("lte-starlink", (40, 35, 8, 0), (100, 50, 25, 10), [29.6, 27.2]),
    profile("lte-geo", (40, 35, 0, 0), (20, 320, 20, 5), [31.7, 31.5]),
    profile("congested", (20, 50, 20, 20), (15, 60, 25, 20), [6.4, 6.4]),
];

fn way((mbit, delay_ms, deviation_ms, loss): Path) -> Way {
    let mut way = Way::new(mbit * 1_000_000, delay_ms, "1000 packets");
    if deviation_ms > 0 {
        // Half the width of an even distribution of that deviation: its root of three.
        let half_us = deviation_ms * 1_732;
        let least_us = way.delay_us.saturating_sub(half_us);
        let width_us = way.delay_us + half_us - least_us;
        way.delay_us = least_us;
        way = way.with(&format!("jitter = \"{width_us} us\"")).with("keep-order = false");
    }
    if loss > 0 { way.losing(loss) } else { way }
}

pub(super) fn tasks(edition: Edition) -> Vec<Task> {
    // Forty-eight runs of up to 330 Mbit/s: one seed of each fits into the quick edition.
    let (seconds, seeds) = if edition == Edition::Full { (60, FULL_SEEDS) } else { (20, 1) };
    let task = |profile: Profile| {
        let lanes = profile.paths.map(way);
        let runs = runs(&format!("profile-{}", profile.name), profile.name, seconds, &lanes, None);
        let judge_all = move |seen: &[Seen]| -> Vec<Row> {
            let case = [("profile", json!(profile.name))];
            let compared = Compared::new(seen, seconds);
            let mut rows = compared.plain(&seen[0], &case);
            let [alone, best] = profile.published;
            rows[0].published = Some(best * 1e6);
            let mut judged = compared.judged(&seen[0], &case);
            judged[0].published = Some(best / alone);
            rows.extend(judged);
            rows
        };
        Task::new("profiles", runs, judge_all).seeds(seeds)
    };
    PROFILES.into_iter().map(task).collect()
}
