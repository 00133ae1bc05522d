//! The probe beside irtt: both measure one emulated link at the same time, and their medians of each phase are compared.

use super::ID;
use crate::cells::{Aim, Head};
use crate::document::{Edition, Row};
use crate::kept::Kept;
use crate::runner::Runner;
use crate::{StudyError, StudyOptions};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use wavelane_base::text::ShownPath;
use wavelane_base::{Seed, Span};
use wavelane_lab::{Ground, can_build};
use wavelane_probe::document::ProbeDocument;
use wavelane_probe::limits::Limits;
use wavelane_probe::plan::{Measurement, Plan, StageKind};
use wavelane_probe::{ProbeError, drive, figures, serve};
use wavelane_run::{BackendError, RunError, RunHooks, Verdict};
use wavelane_scenario::{Scenario, Stack};

/// The part's word.
pub(super) const PROBE: &str = "probe";

/// irtt, and what to do without it.
const IRTT: (&str, &str) = ("irtt", "install irtt (apt install irtt)");
const IRTT_PORT: u16 = 2_112;
/// From one packet to the next, of both instruments.
const INTERVAL: Span = Span::from_millis(10);
/// irtt goes on for this long past the probe, whose session and pauses take time beside its phases.
const BEYOND: Span = Span::from_secs(6);
/// Pings of irtt in a phase below which its median says nothing: half of those due in two seconds.
const PINGS_MIN: usize = 100;
/// Largest file of irtt that is read; a minute at 10 ms is 3 MB.
const IRTT_MAX: u64 = 64 << 20;
/// How far the medians may be apart: the larger of the two.
const WITHIN_MS: f64 = 1.0;
const WITHIN_SHARE: f64 = 0.02;

/// One link.
#[derive(Clone, Copy)]
struct Link {
    name: &'static str,
    rate: &'static str,
    delay_ms: u32,
    queue: &'static str,
}

const LINKS: [Link; 3] = [
    Link { name: "10 Mbit/s, FIFO of 300 ms", rate: "10 Mbit/s", delay_ms: 10, queue: "\"375 kB\"" },
    Link { name: "2 Mbit/s, FIFO of 300 ms", rate: "2 Mbit/s", delay_ms: 25, queue: "\"75 kB\"" },
    Link { name: "20 Mbit/s, FQ-CoDel", rate: "20 Mbit/s", delay_ms: 50, queue: "{ kind = \"fq-codel\" }" },
];

fn links(edition: Edition) -> &'static [Link] {
    if edition == Edition::Full { &LINKS } else { &LINKS[..1] }
}

fn scenario(link: &Link) -> Result<Scenario, StudyError> {
    let Link { name, rate, delay_ms, queue } = link;
    let text = format!(
        "title = \"The probe beside irtt: {name}\"\nduration = \"1 min\"\nstacks = [\"tcp-cubic\"]\n\
         [nodes]\nclient = \"endpoint\"\nrouter = \"router\"\nserver = \"endpoint\"\n\
         [channels.line]\nbetween = [\"client\", \"router\"]\n\
         forward = {{ rate = \"{rate}\", delay = \"{delay_ms} ms\", queue = {queue} }}\nreverse = \"same\"\n\
         [channels.lan]\npreset = \"ethernet\"\nbetween = [\"router\", \"server\"]\n\
         [flows.load]\napp = \"upload\"\nfrom = \"client\"\nto = \"server\"\n"
    );
    Ok(Scenario::parse(&text, Path::new("."))?)
}

/// One phase, by both.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct Phase {
    phase: String,
    ours_ms: Option<f64>,
    theirs_ms: Option<f64>,
    pings: u64,
}

/// The result of one link.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
struct Outcome {
    phases: Vec<Phase>,
    rpm: Option<f64>,
    /// Why it does not count.
    inconclusive: Option<String>,
}

fn stages(edition: Edition) -> Vec<(StageKind, Span)> {
    let (idle, load) = match edition {
        Edition::Quick => (Span::from_secs(4), Span::from_secs(8)),
        Edition::Full => (Span::from_secs(6), Span::from_secs(20)),
    };
    let rest = (StageKind::Rest, Span::from_millis(1_500));
    vec![(StageKind::Idle, idle), (StageKind::Down, load), rest, (StageKind::Up, load), rest, (StageKind::Both, load)]
}

fn of_probe(error: &ProbeError) -> BackendError {
    BackendError::Failed(format!("the probe: {error}"))
}

/// Runs both over one link.
fn measure(link: &Link, edition: Edition, seed: Seed, out: &Path, hooks: &RunHooks<'_>) -> Result<Outcome, StudyError> {
    let built = scenario(link)?;
    if let Err(why) = can_build(&built, &[IRTT, ("ip", "install iproute2 (apt install iproute2)")]) {
        return Ok(Outcome { inconclusive: Some(why), ..Outcome::default() });
    }
    match on_the_ground(built, edition, seed, out, hooks) {
        Ok(outcome) => Ok(outcome),
        Err(BackendError::Cancelled) => Err(RunError::Cancelled.into()),
        Err(error) => Ok(Outcome { inconclusive: Some(error.to_string()), ..Outcome::default() }),
    }
}

/// Sets its flag when dropped, so that threads in namespaces end with the measurement however that ends.
struct Stop(Arc<AtomicBool>);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn on_the_ground(
    scenario: Scenario,
    edition: Edition,
    seed: Seed,
    out: &Path,
    hooks: &RunHooks<'_>,
) -> Result<Outcome, BackendError> {
    std::fs::create_dir_all(out)
        .map_err(|e| BackendError::Unable(format!("cannot make {}: {e}; choose another --out", out.shown())))?;
    let mut ground = Ground::build(scenario, seed, Stack::from_word("tcp-cubic").expect("a stack's word"), out)?;
    let server = ground.address("server")?;
    let stop = Stop(Arc::new(AtomicBool::new(false)));

    let (told, ready) = std::sync::mpsc::channel();
    let theirs = Arc::clone(&stop.0);
    let serving = ground.inside("server", move || {
        std::thread::spawn(move || {
            serve::serve((server, serve::PORT).into(), Limits::default(), None, theirs, |_| told.send(()).unwrap_or(()))
        })
    })?;
    // Ends at once if the server could not start: its end of the channel is gone.
    let _ = ready.recv();

    // Without a least interval, because what a draining queue delivers at once would be refused.
    let bind = format!("{server}:{IRTT_PORT}");
    ground.start("server", IRTT.0, &["server", "-b", &bind, "-i", "0", "-d", "0"], IRTT.1)?;
    let stages = stages(edition);
    let length = stages.iter().fold(BEYOND, |sum, (_, length)| sum + *length);
    let file = out.join("irtt.json");
    let words = ["client", "-Q", "-i", "10ms", "-d", &format!("{}ms", length.as_nanos() / 1_000_000), "-o"];
    let file_word = file.display().to_string();
    let words: Vec<&str> = words.into_iter().chain([file_word.as_str(), bind.as_str()]).collect();
    ground.start("client", IRTT.0, &words, IRTT.1)?;

    let plan = Plan {
        target: (server, serve::PORT).into(),
        stages,
        interval: INTERVAL,
        size: 80,
        dscps: Vec::new(),
        congestion: "cubic".into(),
        streams: 4,
        ramp: Span::from_millis(300),
        hops: false,
        vantage: None,
    };
    let theirs = Arc::clone(&stop.0);
    let measuring =
        ground.inside("client", move || std::thread::spawn(move || drive::measure(&plan, &theirs, &mut |_| ())))?;
    while !measuring.is_finished() {
        if hooks.cancelled.load(Ordering::Relaxed) {
            stop.0.store(true, Ordering::Relaxed);
        }
        std::thread::park_timeout(std::time::Duration::from_millis(50));
    }
    let measured = measuring.join().map_err(|_| BackendError::Failed("the probe panicked".into()))?;
    if hooks.cancelled.load(Ordering::Relaxed) {
        return Err(BackendError::Cancelled);
    }
    let measurement = measured.map_err(|e| of_probe(&e))?;
    let offset = ground.unix_less_boot_ns();
    let text = ground.collect(BEYOND + Span::from_secs(5), &file, IRTT_MAX, hooks.cancelled)?;
    stop.0.store(true, Ordering::Relaxed);
    serving
        .join()
        .map_err(|_| BackendError::Failed("the probe's server panicked".into()))?
        .map_err(|e| of_probe(&e))?;
    let inconclusive = ground.stop()?;
    let pings = pings(&text).map_err(BackendError::Failed)?;
    Ok(Outcome { inconclusive, ..compare(&figures::document("server", &measurement), &measurement, &pings, offset) })
}

/// Round trips of irtt: time of day at sending in nanoseconds, and milliseconds; `None` if lost.
fn pings(text: &str) -> Result<Vec<(i128, Option<f64>)>, String> {
    let document: Value = serde_json::from_str(text).map_err(|e| format!("irtt's file: {e}"))?;
    let trips = document["round_trips"].as_array().ok_or("irtt's file has no round_trips")?;
    let one = |trip: &Value| {
        let sent = trip["timestamps"]["client"]["send"]["wall"].as_i64()?;
        Some((i128::from(sent), trip["delay"]["rtt"].as_f64().map(|ns| ns / 1e6)))
    };
    Ok(trips.iter().filter_map(one).collect())
}

/// Medians of both per phase, over the same seconds. A lost ping ranks last.
fn compare(d: &ProbeDocument, m: &Measurement, pings: &[(i128, Option<f64>)], unix_less_boot: i128) -> Outcome {
    let phase = |p: &wavelane_probe::document::PhaseFigures| {
        let stage = m.stages.iter().find(|stage| stage.kind.word() == p.phase)?;
        let (from, to) = figures::counted_part(stage);
        let wall = |at: wavelane_base::Instant| i128::from(at.as_nanos()) + unix_less_boot;
        let mut of: Vec<f64> = pings
            .iter()
            .filter(|(sent, _)| (wall(from)..wall(to)).contains(sent))
            .map(|(_, ms)| ms.unwrap_or(f64::INFINITY))
            .collect();
        of.sort_by(f64::total_cmp);
        let theirs_ms = of.get(of.len().saturating_sub(1) / 2).copied().filter(|ms| ms.is_finite());
        Some(Phase { phase: p.phase.into(), ours_ms: p.foreign_p50_ms, theirs_ms, pings: of.len() as u64 })
    };
    Outcome { phases: d.phases.iter().filter_map(phase).collect(), rpm: d.rpm, inconclusive: None }
}

fn rows_of(link: &Link, outcome: &Outcome) -> Vec<Row> {
    let head = Head::new(ID, "lab", &[("link", json!(link.name))], "tcp-cubic");
    let mut rows = Vec::new();
    for phase in &outcome.phases {
        let head = head.and("phase", &phase.phase);
        let mut median =
            head.row("foreign_p50_ms", "ms", &phase.ours_ms.into_iter().collect::<Vec<_>>()).bound_by(phase.theirs_ms);
        median.why = format!("irtt's median over the same seconds is the bound; {} of its pings", phase.pings);
        let apart = |(ours, theirs): (f64, f64)| (ours - theirs).abs() / WITHIN_MS.max(WITHIN_SHARE * theirs);
        let of = phase.ours_ms.zip(phase.theirs_ms).map(apart);
        let row = head.row("p50_apart_of_allowed", "ratio", &of.into_iter().collect::<Vec<_>>());
        let mut row = row.judged(Aim::AtMost(1.0)).noting("allowed are 1 ms or 2 %");
        if phase.pings < PINGS_MIN as u64 {
            row.verdict = Verdict::Inconclusive;
            row.why = format!("irtt sent {} pings in this phase, {PINGS_MIN} are needed", phase.pings);
        }
        rows.extend([median, row]);
    }
    if outcome.phases.is_empty() {
        rows.push(head.row("p50_apart_of_allowed", "ratio", &[]));
    }
    rows.push(head.row("rpm", "1/min", &outcome.rpm.into_iter().collect::<Vec<_>>()));
    if let Some(why) = &outcome.inconclusive {
        for row in rows.iter_mut().filter(|row| row.metric == "p50_apart_of_allowed") {
            row.verdict = Verdict::Inconclusive;
            row.why = why.clone();
        }
    }
    rows
}

/// Measures the edition's links, one after the other.
pub(super) fn run(options: &StudyOptions, hooks: &RunHooks<'_>) -> Result<Vec<Row>, StudyError> {
    let links: Vec<&Link> = links(options.edition).iter().collect();
    let folder =
        |link: &Link| -> PathBuf { options.out.join(ID).join(format!("probe-{}", link.rate.replace(['/', ' '], ""))) };
    let kept = Kept::open(options, ID);
    let key = |link: &&Link| format!("{PROBE} {}", link.name);
    let work = |link: &&Link| measure(link, options.edition, options.seed, &folder(link), hooks);
    let runner = Runner { what: "links", workers: 1, hooks };
    let outcomes = runner.run_kept(&kept, &links, |_| 1.0, key, work)?;
    let rows: Vec<Row> = links.iter().zip(&outcomes).flat_map(|(link, outcome)| rows_of(link, outcome)).collect();
    rows.iter().for_each(options.row);
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_link_is_a_scenario() {
        for link in &LINKS {
            assert_eq!(scenario(link).expect("a scenario").channels.len(), 2, "{}", link.name);
        }
    }

    #[test]
    fn irtts_pings_are_read_and_lost_ones_known() {
        let text = r#"{"round_trips": [
            {"timestamps": {"client": {"send": {"wall": 1000000000}}}, "delay": {"rtt": 2500000}},
            {"timestamps": {"client": {"send": {"wall": 1010000000}}}, "delay": {}}]}"#;
        assert_eq!(pings(text).expect("a file of irtt"), [(1_000_000_000, Some(2.5)), (1_010_000_000, None)]);
        assert!(pings("{}").expect_err("no file of irtt").contains("round_trips"));
        assert!(pings("{").is_err());
    }

    fn verdict(ours: f64, theirs: f64) -> Verdict {
        let phase = Phase { phase: "up".into(), ours_ms: Some(ours), theirs_ms: Some(theirs), pings: 500 };
        let rows = rows_of(&LINKS[0], &Outcome { phases: vec![phase], ..Outcome::default() });
        rows.iter().find(|row| row.metric == "p50_apart_of_allowed").expect("a judged row").verdict
    }

    #[test]
    fn medians_may_be_a_millisecond_or_two_per_cent_apart() {
        assert_eq!((verdict(20.9, 20.0), verdict(21.1, 20.0)), (Verdict::Pass, Verdict::Fail));
        assert_eq!((verdict(295.0, 300.0), verdict(293.0, 300.0)), (Verdict::Pass, Verdict::Fail));
    }

    #[test]
    fn unmeasurable_links_are_inconclusive() {
        let outcome = Outcome { inconclusive: Some("irtt is missing".into()), ..Outcome::default() };
        let rows = rows_of(&LINKS[0], &outcome);
        assert!(
            rows.iter().any(|row| row.verdict == Verdict::Inconclusive && row.why == "irtt is missing"),
            "{rows:?}"
        );
    }
}
