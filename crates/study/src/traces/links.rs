//! Recordings as scenarios: each with each queue in each direction that was recorded.

use super::{BULK, ECHO, STACKS};
use std::path::Path;
use wavelane_base::text::ShownPath;
use wavelane_base::{Instant, Rate, Ratio, Span};
use wavelane_channel::{DelayTrace, RateTrace, Then};
use wavelane_scenario::trace::{self, Format};
use wavelane_scenario::trace_folder::{LEO_EVERY, RecordedLink, links};

/// The round trip where none was recorded.
const RTT: Span = Span::from_millis(40);
/// Packets of a queue at least: fewer would be no queue.
const QUEUE_MIN: u64 = 10;
const PACKET: u64 = 1_500;

/// The recordings that are shipped, with their names.
const SHIPPED: [(&str, &[u8]); 5] = [
    ("autobahn.down.csv", include_bytes!("../../../../scenarios/traces/autobahn.down.csv")),
    ("autobahn.up.csv", include_bytes!("../../../../scenarios/traces/autobahn.up.csv")),
    ("c2tcp-subway.down.gz", include_bytes!("../../../../scenarios/traces/c2tcp-subway.down.gz")),
    ("leocc-starlink.delay.gz", include_bytes!("../../../../scenarios/traces/leocc-starlink.delay.gz")),
    ("leocc-starlink.down.gz", include_bytes!("../../../../scenarios/traces/leocc-starlink.down.gz")),
];
/// The two directions, by the recording under test.
pub(super) const WAYS: [&str; 2] = ["down", "up"];
/// Words of the queues.
pub(super) const QUEUES: [&str; 4] = ["100 packets", "250 kB", "1 MB", "1 BDP, FQ-CoDel"];

/// One recording in one direction with one queue.
pub(super) struct Case {
    pub(super) recording: String,
    /// `down` or `up`.
    pub(super) way: &'static str,
    pub(super) queue: &'static str,
    /// The mean rate of what is run.
    pub(super) mean: Rate,
    /// The scenario.
    pub(super) text: String,
}

/// A rate in a scenario's words, and its mean over what is run.
pub(super) struct Line {
    pub(super) words: String,
    pub(super) mean: Rate,
}

fn quoted(path: &Path) -> String {
    // JSON's escapes are TOML's too.
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    serde_json::Value::from(path.to_string_lossy().into_owned()).to_string()
}

fn read_rate(path: &Path, format: Format) -> Result<RateTrace, String> {
    let said = |why: String| format!("{}: {why}", path.shown());
    let (text, source) = trace::read(path).map_err(said)?;
    trace::rate(&text, source, format, Ratio::ONE, Then::Wrap).map_err(said)
}

pub(super) fn line(path: &Path, format: Format, seconds: u64) -> Result<Line, String> {
    let trace = read_rate(path, format)?;
    let word = if format == Format::Csv { "csv" } else { "mahimahi" };
    let mean = trace.mean_between(Instant::ZERO, Instant::from_secs(seconds));
    if mean == Rate::from_bps(0) {
        return Err(format!("{}: nothing passes in its first {seconds} s: cut its beginning", path.shown()));
    }
    Ok(Line { words: format!("{{ file = {}, format = \"{word}\" }}", quoted(path)), mean })
}

fn read_delay(path: &Path) -> Result<DelayTrace, String> {
    let said = |why: String| format!("{}: {why}", path.shown());
    let (text, source) = trace::read(path).map_err(said)?;
    trace::delay(&text, source, LEO_EVERY, Then::Wrap).map_err(said)
}

/// The one-way delay in a scenario's words, and twice its mean.
fn delay(path: Option<&Path>, seconds: u64) -> Result<(String, Span), String> {
    let Some(path) = path else { return Ok((format!("\"{} us\"", RTT.as_micros() / 2), RTT)) };
    let trace = read_delay(path)?;
    let steps = seconds * 1_000_000_000 / LEO_EVERY.as_nanos();
    let sum: u64 = (0..steps).map(|n| trace.at(Instant::ZERO + LEO_EVERY.times(n)).as_nanos()).sum();
    let words = format!("{{ file = {}, every = \"{} us\" }}", quoted(path), LEO_EVERY.as_micros());
    Ok((words, Span::from_nanos(2 * sum / steps.max(1))))
}

/// A queue's TOML value for a mean rate and a round trip.
fn queue(word: &str, mean: Rate, rtt: Span) -> String {
    if QUEUES[..3].contains(&word) {
        return format!("\"{word}\"");
    }
    let packets = (mean.octets_in(rtt).get() / PACKET).max(QUEUE_MIN);
    format!("{{ kind = \"fq-codel\", limit = \"{packets} packets\" }}")
}

/// A scenario of two gateways and channels with these tables, forward and reverse.
pub(super) fn scenario(title: &str, seconds: u64, stacks: &[&str], channels: &[(&str, [String; 2])]) -> String {
    let stacks: Vec<String> = stacks.iter().map(|stack| format!("\"{stack}\"")).collect();
    let title = serde_json::Value::from(title);
    let mut text = format!(
        "title = {title}\nduration = \"{seconds} s\"\nstacks = [{}]\n[nodes]\nclient = \"endpoint\"\nnear = \"gateway\"\n\
         far = \"gateway\"\nserver = \"endpoint\"\n[channels.lan-client]\npreset = \"ethernet\"\nbetween = [\"client\", \"near\"]\n\
         [channels.lan-server]\npreset = \"ethernet\"\nbetween = [\"far\", \"server\"]\n",
        stacks.join(", ")
    );
    for (name, [forward, reverse]) in channels {
        text +=
            &format!("[channels.{name}]\nbetween = [\"near\", \"far\"]\nforward = {forward}\nreverse = {reverse}\n");
    }
    text + &format!(
        "[flows.{BULK}]\napp = \"upload\"\nfrom = \"client\"\nto = \"server\"\n\
         [flows.{ECHO}]\napp = \"echo\"\nfrom = \"client\"\nto = \"server\"\nwhile = \"{BULK}\"\n"
    )
}

pub(super) fn table(rate: &str, delay: &str, queue: &str) -> String {
    format!("{{ rate = {rate}, delay = {delay}, queue = {queue} }}")
}

fn cases_of(link: &RecordedLink, seconds: u64) -> Result<Vec<Case>, String> {
    let (delay, rtt) = delay(link.delay.as_deref(), seconds)?;
    let of = |way: usize| link.rates[way].as_ref().map(|(path, format)| line(path, *format, seconds)).transpose();
    let lines = [of(0)?, of(1)?];
    let mut cases = Vec::new();
    for (way, word) in WAYS.into_iter().enumerate() {
        let Some(tested) = &lines[way] else { continue };
        // What was not recorded runs at the mean of what was.
        let steady = Line { words: format!("\"{} bit/s\"", tested.mean.as_bps()), mean: tested.mean };
        let back = lines[1 - way].as_ref().unwrap_or(&steady);
        for kind in QUEUES {
            let of = |line: &Line| table(&line.words, &delay, &queue(kind, line.mean, rtt));
            let title = format!("{} {word}, {kind}", link.name);
            let text = scenario(&title, seconds, &STACKS, &[("air", [of(tested), of(back)])]);
            cases.push(Case { recording: link.name.clone(), way: word, queue: kind, mean: tested.mean, text });
        }
    }
    Ok(cases)
}

/// The recorded links of a folder, or those that are shipped, written below `out` for whoever wants to replay them.
fn recorded(folder: Option<&Path>, out: &Path) -> Result<Vec<RecordedLink>, String> {
    if let Some(folder) = folder {
        return links(folder);
    }
    let own = out.join("recordings");
    let wrong = |e: std::io::Error| format!("{}: {e}; choose another --out", own.shown());
    std::fs::create_dir_all(&own).map_err(wrong)?;
    for (name, bytes) in SHIPPED {
        wavelane_run::write_whole(&own.join(name), bytes).map_err(wrong)?;
    }
    links(&own)
}

/// The shipped recording of a Starlink downlink, with its delay.
pub(crate) fn starlink(out: &Path) -> Result<(RateTrace, DelayTrace), String> {
    recorded(None, out)?;
    let [rate, delay] = ["down", "delay"].map(|what| out.join(format!("recordings/leocc-starlink.{what}.gz")));
    Ok((read_rate(&rate, Format::Mahimahi)?, read_delay(&delay)?))
}

/// All cases, those of slow links first.
pub(super) fn cases(folder: Option<&Path>, out: &Path, seconds: u64) -> Result<Vec<Case>, String> {
    let mut cases = Vec::new();
    for link in recorded(folder, out)? {
        cases.extend(cases_of(&link, seconds)?);
    }
    cases.sort_by_key(|case| case.mean);
    Ok(cases)
}
