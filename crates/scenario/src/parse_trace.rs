//! A channel's rate or delay from a recording: `rate = { file, format, scale, then }`, `delay = { file, every, then }`.

use crate::ScenarioError;
use crate::trace::{self, FORMATS, Format, THENS, TRACE_TABLES_MAX};
use crate::word;
use crate::write::{text, unit};
use crate::{Table, Value};
use std::cell::RefCell;
use std::ops::Deref;
use std::path::Path;
use wavelane_base::text::ShownPath;
use wavelane_base::{Octets, Quantity, Ratio, Span};
use wavelane_channel::{DelayTrace, RateTrace, Source, Then};

/// Keys of a rate from a recording.
pub const RATE_TRACE_KEYS: &[&str] = &["file", "format", "scale", "then", "sha256"];
/// Keys of a delay from a recording.
pub const DELAY_TRACE_KEYS: &[&str] = &["file", "every", "then", "sha256"];

/// The folder of a scenario, and the recordings that it has named so far: each is kept once.
#[derive(Debug)]
pub(crate) struct Base<'a> {
    folder: &'a Path,
    rates: RefCell<Vec<RateTrace>>,
    delays: RefCell<Vec<DelayTrace>>,
}

impl<'a> Base<'a> {
    pub(crate) fn new(folder: &'a Path) -> Self {
        Self { folder, rates: RefCell::default(), delays: RefCell::default() }
    }
    /// A recorded rate of this text, whose table is shared with an earlier one if it can be.
    pub(crate) fn rate(
        &self,
        text: &str,
        source: Source,
        format: Format,
        (scale, then): (Ratio, Then),
    ) -> Result<RateTrace, String> {
        let is_same = |known: &&RateTrace| {
            let opportunities = format == Format::Mahimahi;
            known.source().sha256 == source.sha256 && known.is_opportunities() == opportunities
        };
        let shared =
            self.rates.borrow().iter().filter(is_same).find_map(|known| known.again(source.clone(), scale, then));
        if let Some(shared) = shared {
            return shared.map_err(|e| e.to_string());
        }
        let made = trace::rate(text, source, format, scale, then)?;
        self.rates.borrow_mut().push(made.clone());
        self.bounded().map(|()| made)
    }
    /// The same of a delay.
    fn delay(&self, text: &str, source: Source, every: Span, then: Then) -> Result<DelayTrace, String> {
        let shared = self.delays.borrow().iter().find(|known| known.source().sha256 == source.sha256).cloned();
        if let Some(shared) = shared {
            return shared.again(source, every, then).map_err(|e| e.to_string());
        }
        let made = trace::delay(text, source, every, then)?;
        self.delays.borrow_mut().push(made.clone());
        self.bounded().map(|()| made)
    }
    /// Of each recording with each scale one is kept.
    fn bounded(&self) -> Result<(), String> {
        let rates: usize = self.rates.borrow().iter().map(RateTrace::octets).sum();
        let delays: usize = self.delays.borrow().iter().map(DelayTrace::octets).sum();
        if (rates + delays) as u64 <= TRACE_TABLES_MAX {
            return Ok(());
        }
        let most = Octets::new(TRACE_TABLES_MAX).write();
        Err(format!(
            "with it this scenario's recordings take more than {most} of memory: name fewer, with fewer scales, or cut them"
        ))
    }
}

impl Deref for Base<'_> {
    type Target = Path;

    fn deref(&self) -> &Path {
        self.folder
    }
}

/// The table of a rate.
pub(crate) fn rate(value: &Value<'_>, base: &Base<'_>) -> Result<RateTrace, ScenarioError> {
    let table = value.table("{ file = \"x.down\", format = \"mahimahi\" }")?;
    table.only(RATE_TRACE_KEYS)?;
    let format = word(&table.need("format", "\"mahimahi\"")?, "format of a recording", FORMATS, "\"mahimahi\"")?;
    let scale = table.get("scale").map(|v| scale(&v)).transpose()?.unwrap_or(Ratio::ONE);
    let then = then(&table)?;
    recording(&table, base, |text, source| base.rate(text, source, format, (scale, then)))
}

/// A ratio as text, or the number 0 or 1.
fn scale(value: &Value<'_>) -> Result<Ratio, ScenarioError> {
    match value.whole() {
        Ok(0) => Ok(Ratio::ZERO),
        Ok(1) => Ok(Ratio::ONE),
        _ => value.quantity(),
    }
}

/// The table of a delay.
pub(crate) fn delay(value: &Value<'_>, base: &Base<'_>) -> Result<DelayTrace, ScenarioError> {
    let table = value.table("{ file = \"x.delay\", every = \"10 ms\" }")?;
    table.only(DELAY_TRACE_KEYS)?;
    let every: Span = table.need("every", "\"10 ms\"")?.quantity()?;
    let then = then(&table)?;
    recording(&table, base, |text, source| base.delay(text, source, every, then))
}

fn then(table: &Table<'_>) -> Result<Then, ScenarioError> {
    Ok(table.get("then").map(|v| word(&v, "end of a recording", THENS, "\"wrap\"")).transpose()?.unwrap_or_default())
}

/// Reads the file at `file`, counted from the scenario's folder. A Record's, whose SHA-256 is stated, is also found by its name beside the
/// Record's scenario, for Records are read elsewhere; elsewhere a file of that name is another.
fn recording<T>(
    table: &Table<'_>,
    base: &Path,
    parse: impl Fn(&str, Source) -> Result<T, String>,
) -> Result<T, ScenarioError> {
    let file = table.need("file", "\"x.down\"")?;
    let name = file.str("a path", "\"x.down\"")?;
    let wanted = table.get("sha256").map(|v| v.str("a SHA-256", "\"9f86...\"").map(str::to_owned)).transpose()?;
    let stated = base.join(name);
    let file_name = Path::new(name).file_name().unwrap_or_default();
    let beside = wanted.is_some().then(|| base.join(file_name)).filter(|path| path.is_file());
    let wrong = |path: &Path, why: String| {
        let remedy = wanted.as_ref().map_or(String::new(), |hash| {
            let name = file_name.to_string_lossy();
            format!("; wanted is the recording with SHA-256 {hash}: put it back, or copy it beside the Record's scenario.toml as {name}")
        });
        file.impossible(format!("recording {}: {why}{remedy}", path.shown()))
    };
    let mut refused = None;
    for path in [Some(stated), beside].into_iter().flatten() {
        let (text, mut source) = match trace::read(&path) {
            Ok(read) => read,
            Err(why) => {
                refused = Some(wrong(&path, why));
                continue;
            }
        };
        if wanted.as_ref().is_some_and(|hash| *hash != source.sha256) {
            refused = Some(wrong(&path, format!("its SHA-256 is {}", source.sha256)));
            continue;
        }
        source.file = std::path::absolute(&path).unwrap_or_else(|_| path.clone()).to_string_lossy().into_owned();
        let damaged = |why| file.impossible(format!("recording {}: {why}", path.shown()));
        return parse(&text, source).map_err(damaged);
    }
    Err(refused.unwrap_or_else(|| file.impossible(format!("recording {name}: no such file"))))
}

fn tail(then: Then, source: &Source) -> String {
    let end = if then == Then::End { ", then = \"end\"" } else { "" };
    format!("{end}, sha256 = {}", text(&source.sha256))
}

pub(crate) fn write_rate(trace: &RateTrace) -> String {
    let format = if trace.is_opportunities() { "mahimahi" } else { "csv" };
    let scale = if trace.scale() == Ratio::ONE { String::new() } else { format!(", scale = {}", unit(&trace.scale())) };
    let file = text(&trace.source().file);
    format!("{{ file = {file}, format = \"{format}\"{scale}{} }}", tail(trace.then(), trace.source()))
}

pub(crate) fn write_delay(trace: &DelayTrace) -> String {
    let file = text(&trace.source().file);
    format!("{{ file = {file}, every = {}{} }}", unit(&trace.every()), tail(trace.then(), trace.source()))
}
