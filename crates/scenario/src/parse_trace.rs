//! A channel's rate or delay from a recording: `rate = { file, format, scale, then }`, `delay = { file, every, then }`.

use crate::error::ScenarioError;
use crate::parse::word;
use crate::table::{Table, Value};
use crate::trace::{self, FORMATS, THENS};
use crate::write::{text, unit};
use std::path::{Path, PathBuf};
use wavelane_base::{Ratio, Span};
use wavelane_channel::{DelayTrace, RateTrace, Source, Then};

/// Keys of a rate from a recording.
pub const RATE_TRACE_KEYS: &[&str] = &["file", "format", "scale", "then", "sha256"];
/// Keys of a delay from a recording.
pub const DELAY_TRACE_KEYS: &[&str] = &["file", "every", "then", "sha256"];

/// The table of a rate.
pub(crate) fn rate(value: &Value<'_>, base: &Path) -> Result<RateTrace, ScenarioError> {
    let table = value.table("{ file = \"x.down\", format = \"mahimahi\" }")?;
    table.only(RATE_TRACE_KEYS)?;
    let format = word(&table.need("format", "\"mahimahi\"")?, "format of a recording", FORMATS, "\"mahimahi\"")?;
    let scale: Ratio = table.quantity("scale")?.unwrap_or(Ratio::ONE);
    let then = then(&table)?;
    recording(&table, base, |text, source| trace::rate(text, source, format, scale, then))
}

/// The table of a delay.
pub(crate) fn delay(value: &Value<'_>, base: &Path) -> Result<DelayTrace, ScenarioError> {
    let table = value.table("{ file = \"x.delay\", every = \"10 ms\" }")?;
    table.only(DELAY_TRACE_KEYS)?;
    let every: Span = table.need("every", "\"10 ms\"")?.quantity()?;
    let then = then(&table)?;
    recording(&table, base, |text, source| trace::delay(text, source, every, then))
}

fn then(table: &Table<'_>) -> Result<Then, ScenarioError> {
    Ok(table.get("then").map(|v| word(&v, "end of a recording", THENS, "\"wrap\"")).transpose()?.unwrap_or_default())
}

/// Reads the file at `file`: from the scenario's folder or, as a Record is read elsewhere, by its name beside the Record's scenario.
fn recording<T>(
    table: &Table<'_>,
    base: &Path,
    parse: impl Fn(&str, Source) -> Result<T, String>,
) -> Result<T, ScenarioError> {
    let file = table.need("file", "\"x.down\"")?;
    let name = file.str("a path", "\"x.down\"")?;
    let wanted = table.get("sha256").map(|v| v.str("a SHA-256", "\"9f86...\"").map(str::to_owned)).transpose()?;
    let stated = base.join(name);
    let path = [stated.clone(), base.join(Path::new(name).file_name().unwrap_or_default())]
        .into_iter()
        .find(|path| path.is_file())
        .unwrap_or(stated);
    let missing = |why: &str| match &wanted {
        Some(hash) => {
            format!("{why}; wanted is the recording with SHA-256 {hash}: put it there or beside the scenario")
        }
        None => why.to_owned(),
    };
    let wrong = |why: String| file.impossible(format!("recording {}: {why}", path.display()));
    let (text, mut source) = trace::read(&path).map_err(|why| wrong(missing(&why)))?;
    if wanted.as_ref().is_some_and(|hash| *hash != source.sha256) {
        return Err(wrong(missing(&format!("its SHA-256 is {}", source.sha256))));
    }
    source.file = std::path::absolute(&path).unwrap_or_else(|_| PathBuf::from(&path)).to_string_lossy().into_owned();
    parse(&text, source).map_err(wrong)
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
