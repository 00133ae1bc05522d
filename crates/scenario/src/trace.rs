//! Recordings of real links as files: delivery opportunities, rates over seconds, delays; packed by gzip or not.

use std::io::Read;
use std::path::Path;
use wavelane_base::{Octets, Quantity, Rate, Ratio, Span};
use wavelane_channel::cable::ENTRIES_MAX;
use wavelane_channel::{DelayTrace, RateTrace, Source, Then, TraceError};

/// Largest recording, unpacked, and largest file.
pub const TRACE_FILE_MAX: u64 = 64 << 20;
/// Longest line of a recording.
pub const TRACE_LINE_MAX: usize = 4_096;
/// Memory of all recordings of a scenario, each counted once however often it is named.
pub const TRACE_TABLES_MAX: u64 = 512 << 20;

/// How a recording says its rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// A millisecond a line, at which one delivery opportunity of 1,504 bytes is given.
    Mahimahi,
    /// A head of `seconds` and a unit, then a time and a rate a line.
    Csv,
}

/// The formats by word.
pub const FORMATS: &[(&str, Format)] = &[("mahimahi", Format::Mahimahi), ("csv", Format::Csv)];
/// What may follow a recording's end, by word.
pub const THENS: &[(&str, Then)] = &[("wrap", Then::Wrap), ("end", Then::End)];
/// Heads of the second column of a CSV, and how many bit/s one of it is.
const UNITS: &[(&str, u64)] = &[("bit/s", 1), ("kbit/s", 1_000), ("Mbit/s", 1_000_000), ("Gbit/s", 1_000_000_000)];

/// A recording's text, unpacked, and where it came from. The error says cause and remedy.
pub fn read(path: &Path) -> Result<(String, Source), String> {
    let unreadable = |e: std::io::Error| {
        format!("cannot read it: {e}; check its permissions and the path, which counts from the scenario's folder")
    };
    let bounded = |reader: &mut dyn Read| {
        let mut bytes = Vec::new();
        reader.take(TRACE_FILE_MAX + 1).read_to_end(&mut bytes).map(|_| bytes)
    };
    // Opening a pipe would wait for its writer.
    if path.exists() && !path.is_file() {
        return Err("it is no regular file: name the recording itself".into());
    }
    let mut bytes = bounded(&mut std::fs::File::open(path).map_err(unreadable)?).map_err(unreadable)?;
    if bytes.starts_with(&[0x1F, 0x8B]) {
        let damaged = |e| format!("its gzip is damaged: {e}; fetch the file again");
        bytes = bounded(&mut flate2::read::MultiGzDecoder::new(&bytes[..])).map_err(damaged)?;
    }
    if bytes.len() as u64 > TRACE_FILE_MAX {
        return Err(format!("it is larger than {} unpacked: cut the recording", Octets::new(TRACE_FILE_MAX).write()));
    }
    let sha256 = sha256(&bytes);
    let text = String::from_utf8(bytes).map_err(|_| "it is not a text: name the file with the recording itself")?;
    Ok((text, Source { file: path.to_string_lossy().into_owned(), sha256 }))
}

/// SHA-256 in hexadecimal.
fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest;
    sha2::Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A recorded rate.
pub fn rate(text: &str, source: Source, format: Format, scale: Ratio, then: Then) -> Result<RateTrace, String> {
    match format {
        Format::Mahimahi => {
            let head = text.lines().next().unwrap_or_default();
            if unit_of(head).is_some() {
                return Err(format!("line 1: '{}' is the head of a table: set format = \"csv\"", shown(head)));
            }
            let ms = each(text, 1, "a whole number of milliseconds, as Mahimahi writes it", |line| line.parse().ok())?;
            RateTrace::opportunities(source, ms, scale, then).map_err(|error| at_line(&error, 1))
        }
        Format::Csv => {
            let head = text.lines().next().unwrap_or_default();
            let bps = unit_of(head).ok_or_else(|| {
                let head = shown(head);
                if head.trim().parse::<u32>().is_ok() {
                    return format!("line 1: '{head}' is no head of a table: set format = \"mahimahi\" if these are its milliseconds");
                }
                format!("line 1: '{head}' is no head: write seconds,Mbit/s (or kbit/s, bit/s, Gbit/s)")
            })?;
            let steps = each(text, 2, "seconds and a rate, such as 17.5,2.4", |line| {
                let (time, rate) = line.split_once(',')?;
                Some((seconds(time.trim())?, Rate::from_bps(decimal(rate.trim(), bps)?)))
            })?;
            RateTrace::steps(source, &steps, scale, then).map_err(|error| at_line(&error, 2))
        }
    }
}

/// A recorded one-way delay: milliseconds, one value a line, each for `every`.
pub fn delay(text: &str, source: Source, every: Span, then: Then) -> Result<DelayTrace, String> {
    let values = each(text, 1, "a delay in milliseconds", |line| decimal(line, 1_000_000).map(Span::from_nanos))?;
    DelayTrace::new(source, values, every, then).map_err(|error| at_line(&error, 1))
}

/// The time of the first entry of a CSV, for recordings that were made side by side.
pub fn begins(text: &str) -> Option<Span> {
    seconds(text.lines().nth(1)?.split_once(',')?.0.trim())
}

/// Whether a line is the head of a recorded rate in CSV.
pub(crate) fn is_head(line: &str) -> bool {
    unit_of(line).is_some()
}

fn unit_of(head: &str) -> Option<u64> {
    let (time, unit) = head.split_once(',')?;
    let known = UNITS.iter().find(|(word, _)| word.eq_ignore_ascii_case(unit.trim()))?;
    (time.trim() == "seconds").then_some(known.1)
}

/// What each line from `first` on, counted from 1, says.
fn each<T>(text: &str, first: usize, what: &str, read: impl Fn(&str) -> Option<T>) -> Result<Vec<T>, String> {
    // Counted before they are kept: a short line may become a long entry.
    if text.lines().skip(first - 1).nth(ENTRIES_MAX).is_some() {
        return Err(TraceError::TooMany.to_string());
    }
    let lines = text.lines().enumerate().skip(first - 1);
    lines
        .map(|(number, line)| {
            let entry = (line.len() <= TRACE_LINE_MAX).then(|| read(line.trim())).flatten();
            let wrong =
                || format!("line {}: '{}' is not {what}: correct the line, or take it out", number + 1, shown(line));
            entry.ok_or_else(wrong)
        })
        .collect()
}

/// A line as far as a message shows it.
fn shown(line: &str) -> String {
    line.chars().take(40).collect()
}

fn at_line(error: &TraceError, first: usize) -> String {
    error.entry().map_or_else(|| error.to_string(), |entry| format!("line {}: {error}", entry + first))
}

/// A time in seconds, to the nanosecond.
pub fn seconds(text: &str) -> Option<Span> {
    decimal(text, 1_000_000_000).map(Span::from_nanos)
}

/// A decimal number times `unit`, without rounding by a float; digits beyond the unit's are cut off.
fn decimal(text: &str, unit: u64) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(part) || text.ends_with('.') {
        return None;
    }
    let mut value = whole.parse::<u64>().ok()?.checked_mul(unit)?;
    let mut place = unit;
    for digit in part.bytes() {
        place /= 10;
        value = value.checked_add(u64::from(digit - b'0') * place)?;
    }
    Some(value)
}

#[cfg(test)]
#[path = "trace_tests.rs"]
mod tests;
