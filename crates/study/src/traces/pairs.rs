//! Two recordings as two lanes of one link, and each alone.

use super::judge::{claim, head};
use super::links::{line, scenario, table};
use super::{OURS, Seen, observe_all, refused};
use crate::cells::{Aim, sorted};
use crate::document::Row;
use crate::{StudyError, StudyOptions};
use std::path::{Path, PathBuf};
use wavelane_base::Span;
use wavelane_base::text::ShownPath;
use wavelane_measure::percentile;
use wavelane_run::RunHooks;
use wavelane_scenario::trace::{self, Format};
use wavelane_scenario::trace_folder::{RecordedLink, links};

/// The aims.
const MEDIAN_AIM: f64 = 0.97;
const WORST_AIM: f64 = 0.9;
const BETTER_AIM: f64 = 0.98;
const SILENCE_AIM_MS: f64 = 500.0;
/// The round trip of both lanes, and their queues.
const DELAY: &str = "\"20 ms\"";
const QUEUE: &str = "\"250 kB\"";

/// A pair's name and its three scenarios: both, the first alone, the second alone.
struct Pair {
    name: String,
    texts: [String; 3],
}

/// The way down of a link, or up if that alone was recorded.
fn rate_of(link: &RecordedLink) -> Option<(PathBuf, Format)> {
    link.rates.iter().flatten().next().cloned()
}

/// The same recording from `from` on, below `folder`, if it has times and begins earlier.
fn aligned(path: &Path, from: Option<Span>, folder: &Path, name: &str) -> Result<PathBuf, String> {
    let said = |why: String| format!("{}: {why}", path.shown());
    let (text, _) = trace::read(path).map_err(said)?;
    let Some(from) = from.filter(|from| trace::begins(&text).is_some_and(|begins| begins < *from)) else {
        return Ok(path.to_owned());
    };
    let mut lines = text.lines();
    let mut out = format!("{}\n", lines.next().unwrap_or_default());
    for line in lines.filter(|line| trace::seconds(line.split(',').next().unwrap_or("").trim()) >= Some(from)) {
        out += &format!("{line}\n");
    }
    let to = folder.join(format!("{name}.csv"));
    std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&to, out)).map_err(|e| said(e.to_string()))?;
    Ok(to)
}

fn pair(a: &RecordedLink, b: &RecordedLink, folder: &Path, seconds: u64) -> Result<Option<Pair>, String> {
    let (Some(first), Some(second)) = (rate_of(a), rate_of(b)) else { return Ok(None) };
    let name = format!("{} + {}", a.name, b.name);
    let begins = |(path, format): &(PathBuf, Format)| {
        let (text, _) = trace::read(path).map_err(|why| format!("{}: {why}", path.shown()))?;
        Ok::<_, String>((*format == Format::Csv).then(|| trace::begins(&text)).flatten())
    };
    // Only where both have times do their seconds belong together.
    let from = begins(&first)?.zip(begins(&second)?).map(|(a, b)| a.max(b));
    let lane = |(path, format): &(PathBuf, Format), which: &str| {
        let path = aligned(path, from, folder, &format!("{}-{}-{which}", a.name, b.name))?;
        let line = line(&path, *format, seconds)?;
        let back = format!("\"{} bit/s\"", line.mean.as_bps());
        Ok::<_, String>([table(&line.words, DELAY, QUEUE), table(&back, DELAY, QUEUE)])
    };
    let (one, two) = (lane(&first, "a")?, lane(&second, "b")?);
    let text =
        |which: &str, lanes: &[(&str, [String; 2])]| scenario(&format!("{name}, {which}"), seconds, &[OURS], lanes);
    let texts = [
        text("both", &[("one", one.clone()), ("two", two.clone())]),
        text("first alone", &[("one", one)]),
        text("second alone", &[("two", two)]),
    ];
    Ok(Some(Pair { name, texts }))
}

/// Links of the same name, else in their order.
fn partners(a: &[RecordedLink], b: &[RecordedLink]) -> Vec<(RecordedLink, RecordedLink)> {
    let named: Vec<_> =
        a.iter().filter_map(|a| Some((a.clone(), b.iter().find(|b| b.name == a.name)?.clone()))).collect();
    if named.is_empty() { a.iter().cloned().zip(b.iter().cloned()).collect() } else { named }
}

/// The longest time without an answer in which one of the lanes alone answered.
pub(super) fn silence_ms(both: &[u64], alone: [&[u64]; 2]) -> f64 {
    let gaps = both.windows(2).map(|pair| (pair[0], pair[1]));
    let delivers = |from: u64, until: u64| {
        alone.iter().any(|answers| {
            let next = answers.partition_point(|at| *at <= from);
            answers.get(next).is_some_and(|at| *at < until)
        })
    };
    gaps.filter(|(from, until)| delivers(*from, *until)).map(|(from, until)| until - from).max().unwrap_or(0) as f64
}

fn rows_of(pair: &Pair, seen: &[Seen]) -> (Vec<Row>, Option<f64>) {
    let [both, one, two] = [0, 1, 2].map(|run| seen[run].goodput_bps);
    let head = head(&[("lanes", pair.name.as_str())], OURS);
    let share = (one + two > 0.0).then(|| both / (one + two));
    let mut rows = Vec::new();
    for (metric, value) in [("share_of_sum", share), ("of_better_lane", Some(both / one.max(two)))] {
        rows.push(
            head.row(metric, "ratio", &value.filter(|v| v.is_finite()).into_iter().collect::<Vec<_>>())
                .judged(Aim::AtLeast(if metric == "share_of_sum" { WORST_AIM } else { BETTER_AIM }))
                .noting(&format!("{:.2} of {:.2} and {:.2} Mbit/s", both / 1e6, one / 1e6, two / 1e6)),
        );
    }
    let silence = silence_ms(&seen[0].answers_ms, [&seen[1].answers_ms, &seen[2].answers_ms]);
    rows.push(head.row("echo_silence_ms", "ms", &[silence]).judged(Aim::AtMost(SILENCE_AIM_MS)));
    (rows, share)
}

/// Runs the pairs of two folders.
pub(super) fn run(
    first: &Path,
    second: &Path,
    seconds: u64,
    options: &StudyOptions,
    hooks: &RunHooks<'_>,
) -> Result<Vec<Row>, StudyError> {
    let folder = options.out.join(super::ID).join("pairs");
    let (a, b) = (links(first).map_err(refused)?, links(second).map_err(refused)?);
    let made: Result<Vec<Option<Pair>>, String> =
        partners(&a, &b).iter().map(|(a, b)| pair(a, b, &folder, seconds)).collect();
    let pairs: Vec<Pair> = made.map_err(refused)?.into_iter().flatten().collect();
    let runs: Vec<(String, &'static str)> =
        pairs.iter().flat_map(|pair| pair.texts.clone().map(|text| (text, OURS))).collect();
    let seen = observe_all(&runs, options, hooks)?;
    let found: Vec<(Vec<Row>, Option<f64>)> =
        pairs.iter().zip(seen.chunks(3)).map(|(pair, seen)| rows_of(pair, seen)).collect();
    let shares = sorted(found.iter().filter_map(|(_, share)| *share));
    let median = claim("share_of_sum_median", "ratio", percentile(&shares, 50), shares.len(), Aim::AtLeast(MEDIAN_AIM));
    let rows: Vec<Row> = std::iter::once(median).chain(found.into_iter().flat_map(|(rows, _)| rows)).collect();
    rows.iter().for_each(options.row);
    Ok(rows)
}
