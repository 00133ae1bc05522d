//! Reads result files of other tools into series over time, and writes flent's.
//!
//! Readable: flent (`.flent` and `.flent.gz`, versions 3 and 4), iperf3 (`-J` and `--json-stream`) and irtt (`-o FILE`), distinguished by their contents. All
//! times are seconds since the test began. A file is read whole, up to [`FILE_MAX`] octets of JSON.

mod bounded;
mod flent;
mod iperf3;
mod irtt;
mod repair;

pub use flent::{FLENT_VERSION, FlentMeta, write_flent};
pub use irtt::IRTT_PING;

use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{self, BufReader, Read};

/// Maximum number of characters of a series' name or unit; a longer name ends with the number of its series.
pub const NAME_MAX: usize = 200;

/// Maximum size of the uncompressed JSON. Its memory is also bounded (2 GiB): half an hour of irtt at 10 ms.
pub const FILE_MAX: u64 = 256 << 20;

/// Why a file is not a readable result.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// Reading or unpacking failed.
    #[error("cannot read {0}")]
    Io(#[from] io::Error),
    /// Too large.
    #[error("more than {FILE_MAX} octets of JSON, or too many values: shorten the test or its sampling")]
    TooLarge,
    /// Not JSON.
    #[error("no JSON ({0}): is the file complete?")]
    Json(#[from] serde_json::Error),
    /// JSON of another kind.
    #[error("neither flent's, iperf3's nor irtt's: write it with `flent`, `iperf3 -J` or `irtt client -o FILE`")]
    Unknown,
    /// What could be repaired is no result.
    #[error("no result remains ({0}): is the file complete?")]
    Remains(String),
    /// An unsupported version.
    #[error("flent's file version {0} is not read; open and save it with a current flent")]
    Version(u64),
    /// The tool itself failed.
    #[error("the test failed: {0}")]
    Failed(String),
    /// A test without a result.
    #[error(
        "{0}'s file has no value over time: the test ended before its first one, or every packet was lost; run it longer"
    )]
    NoValues(&'static str),
    /// A required field of the tool is missing.
    #[error("{tool}'s file has no `{what}`: is it complete?")]
    Missing {
        /// The tool.
        tool: &'static str,
        /// The key.
        what: &'static str,
    },
}

impl Tool {
    /// Its name.
    pub fn word(self) -> &'static str {
        match self {
            Self::Flent => "flent",
            Self::Iperf3 => "iperf3",
            Self::Irtt => "irtt",
        }
    }
}

/// The tool that wrote the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tool {
    /// The FLExible Network Tester.
    Flent,
    /// iperf3.
    Iperf3,
    /// Isochronous round-trip tester.
    Irtt,
}

/// Values over time.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct SeriesData {
    /// The tool's name for it; flent's names where several tools measure the same.
    pub name: String,
    /// Such as `ms` or `Mbits/s`.
    pub units: String,
    /// Seconds since the test began, and the value; `None` where it is missing: lost, or not measured then.
    pub points: Vec<(f64, Option<f64>)>,
}

/// The contents of a result file.
#[derive(Clone, PartialEq, Debug)]
pub struct Results {
    /// The tool.
    pub tool: Tool,
    /// Its own name: a title, or the command's target.
    pub title: String,
    /// Start of the test, seconds since 1970.
    pub start_unix_s: Option<f64>,
    /// The series, in a fixed order.
    pub series: Vec<SeriesData>,
    /// Figures for the whole test, with the unit in the name.
    pub totals: BTreeMap<String, f64>,
    /// What was not as the tool should have written it, and what was done.
    pub repaired: Vec<String>,
}

impl Results {
    /// The series of that name.
    pub fn series(&self, name: &str) -> Option<&SeriesData> {
        self.series.iter().find(|s| s.name == name)
    }
}

/// Reads a result file, also if compressed with gzip.
pub fn read_results(file: impl Read) -> Result<Results, FormatError> {
    let mut file = BufReader::new(file);
    let packed = io::BufRead::fill_buf(&mut file)?.starts_with(&[0x1F, 0x8B]);
    let mut text = Vec::new();
    if packed {
        flate2::bufread::MultiGzDecoder::new(file).take(FILE_MAX + 1).read_to_end(&mut text)?;
    } else {
        file.take(FILE_MAX + 1).read_to_end(&mut text)?;
    }
    if text.len() as u64 > FILE_MAX {
        return Err(FormatError::TooLarge);
    }
    let (json, repaired) = repair::read(&text)?;
    drop(text);
    let results = match &json {
        v if v.get("metadata").is_some() && v.get("results").is_some() => flent::read(v),
        v if v.get("round_trips").is_some() => irtt::read(v),
        v if v.get("start").is_some() && v.get("intervals").is_some() => iperf3::read(v),
        _ if !repaired.is_empty() => Err(FormatError::Remains(repaired.join("; "))),
        _ => Err(FormatError::Unknown),
    };
    let mut results = results?;
    results.repaired.splice(0..0, repaired);
    let has_values = |series: &SeriesData| series.points.iter().any(|point| point.1.is_some());
    if !results.series.iter().any(has_values) {
        return Err(FormatError::NoValues(results.tool.word()));
    }
    Ok(with_short_names(results))
}

/// Shortens names for tables: a file may contain any text there.
fn with_short_names(mut results: Results) -> Results {
    for (i, series) in results.series.iter_mut().enumerate() {
        if clip(&mut series.name) {
            series.name += &format!("... (series {})", i + 1);
        }
        clip(&mut series.units);
    }
    for note in &mut results.repaired {
        clip(note);
    }
    results
}

/// Truncates a text that is longer than [`NAME_MAX`].
fn clip(text: &mut String) -> bool {
    let end = text.char_indices().nth(NAME_MAX).map(|(end, _)| end);
    end.inspect(|&end| text.truncate(end)).is_some()
}

fn number(value: &Value, key: &str) -> Option<f64> {
    value.get(key).and_then(Value::as_f64)
}

fn text(value: &Value, key: &str) -> String {
    value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

#[cfg(test)]
#[path = "formats_tests.rs"]
mod tests;
