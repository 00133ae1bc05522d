//! `[sweep]`: one scenario at many values of some of its keys.

use crate::settings::{Setting, is_same, lies_in};
use crate::{Lines, Table, Value};
use crate::{Problem, ScenarioError};
use crate::{REPEATS_MAX, Scenario};
use std::path::Path;
use toml::de::{DeTable, DeValue};
use wavelane_base::Quantity;
use wavelane_base::text::ShownPath;
use wavelane_base::{Octets, Rate, Ratio, Span};

/// Maximum number of keys that vary at once.
pub const AXES_MAX: usize = 8;
/// Maximum number of values of one key.
pub const VALUES_MAX: usize = 1_000;
/// Maximum number of combinations of values.
pub const CELLS_MAX: usize = 10_000;

/// A key and its values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Axis {
    /// As in `--set`.
    pub key: String,
    /// As in `--set`, at least one.
    pub values: Vec<String>,
}

/// The contents of a file's `[sweep]`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Sweep {
    /// The keys, the slowest-varying first.
    pub axes: Vec<Axis>,
    /// Seeds of each combination; `None` leaves it to the command.
    pub repeats: Option<u32>,
}

/// One combination.
#[derive(Clone, PartialEq, Debug)]
pub struct Cell {
    /// The values, one per axis.
    pub values: Vec<String>,
    /// The scenario with them.
    pub scenario: Scenario,
}

/// A value's number in the base unit, and the key suffix for that unit.
pub fn in_base_units(text: &str) -> Option<(f64, &'static str)> {
    let rate = || Some((Rate::read(text).ok()?.as_bps() as f64, "bps"));
    let span = || Some((Span::read(text).ok()?.as_nanos() as f64 / 1e6, "ms"));
    let octets = || Some((Octets::read(text).ok()?.get() as f64, "bytes"));
    let ratio = || {
        let (num, den) = text.split_once('/')?;
        Ratio::read(text).ok()?;
        Some((num.parse::<f64>().ok()? / den.parse::<f64>().ok()?, ""))
    };
    let number = || text.parse::<f64>().ok().filter(|n| n.is_finite()).map(|n| (n, ""));
    rate().or_else(span).or_else(octets).or_else(ratio).or_else(number)
}

/// Splits at commas outside quotes and brackets.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut from, mut depth, mut quote) = (Vec::new(), 0, 0_i32, None);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => depth -= 1,
            (None, ',') if depth == 0 => {
                parts.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[from..]);
    parts.into_iter().map(str::trim).collect()
}

impl Axis {
    /// Reads `KEY=VALUE,VALUE,...`.
    pub fn read(text: &str) -> Result<Self, String> {
        let Setting { key, value } = Setting::read(text)?;
        let values: Vec<String> = split(&value).into_iter().map(|v| v.trim_matches('"').to_owned()).collect();
        if values.iter().any(String::is_empty) {
            return Err(format!("{key} has an empty value: write {key}=A,B,C"));
        }
        Self { key, values }.checked()
    }

    fn checked(self) -> Result<Self, String> {
        let Self { key, values } = &self;
        if values.is_empty() || values.len() > VALUES_MAX {
            return Err(format!("{key} has {} values: it takes 1 to {VALUES_MAX}", values.len()));
        }
        match values.iter().enumerate().find(|(i, value)| values[..*i].contains(value)) {
            Some((_, twice)) => Err(format!("{key} names {twice} twice: name each value once")),
            None => Ok(self),
        }
    }
}

/// A value on one line, as `--set` accepts it.
fn inline(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => toml::Value::String(text.to_string()).to_string(),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(yes) => yes.to_string(),
        DeValue::Datetime(date) => date.to_string(),
        DeValue::Array(list) => {
            format!("[{}]", list.iter().map(|v| inline(v.get_ref())).collect::<Vec<_>>().join(", "))
        }
        DeValue::Table(table) => {
            let pair = |(key, v): (&toml::Spanned<_>, &toml::Spanned<DeValue<'_>>)| {
                let key: &std::borrow::Cow<'_, str> = key.get_ref();
                format!("{key} = {}", inline(v.get_ref()))
            };
            format!("{{ {} }}", table.iter().map(pair).collect::<Vec<_>>().join(", "))
        }
    }
}

/// `{ from = "1 Mbit/s", to = "100 Mbit/s", steps = 5, scale = "log" }`.
fn range(table: &Table<'_>, at: &Value<'_>) -> Result<Vec<String>, ScenarioError> {
    table.only(&["from", "to", "steps", "scale"])?;
    let text = |key| table.need(key, "\"1 Mbit/s\"")?.str("a number, with a unit if the key has one", "\"1 Mbit/s\"");
    let (from, to) = (text("from")?, text("to")?);
    let steps = table.need("steps", "5")?.whole()?;
    let log = match table.get("scale").map(|v| v.str("linear or log", "\"log\"")).transpose()? {
        None | Some("linear") => false,
        Some("log") => true,
        Some(other) => return Err(at.impossible(format!("{}.scale = \"{other}\" is neither linear nor log", at.path))),
    };
    let part = |text: &str| {
        let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
        number.parse::<f64>().ok().filter(|n| n.is_finite()).map(|n| (n, unit.to_owned()))
    };
    let same = || format!("{}: from and to are numbers of one unit, such as \"1 Mbit/s\" and \"100 Mbit/s\"", at.path);
    let Some(((low, unit), (high, _))) = part(from).zip(part(to)).filter(|(a, b)| a.1 == b.1) else {
        return Err(at.impossible(same()));
    };
    if !(2..=VALUES_MAX as u64).contains(&steps) || low >= high || (log && low <= 0.0) {
        let why = format!("{}: from lies below to (above 0 on a log scale), and steps from 2 to {VALUES_MAX}", at.path);
        return Err(at.impossible(why));
    }
    let value = |i: u64| {
        let share = i as f64 / (steps - 1) as f64;
        let exact = match i {
            0 => low,
            _ if i + 1 == steps => high,
            _ if log => low * (high / low).powf(share),
            _ => low + (high - low) * share,
        };
        // Three significant digits: every value is easy to read and type.
        let decimals = if exact == 0.0 { 0 } else { (2 - exact.abs().log10().floor() as i64).clamp(0, 9) as usize };
        let text = format!("{exact:.decimals$}");
        let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
        if unit.is_empty() { text.to_owned() } else { format!("{text} {unit}") }
    };
    Ok((0..steps).map(value).collect())
}

impl Sweep {
    /// The file's sweep; empty without `[sweep]`.
    pub fn load(path: &Path) -> Result<Self, ScenarioError> {
        let named = |error: ScenarioError| ScenarioError { file: Some(path.display().to_string()), ..error };
        let text = crate::parse::read_scenario(path)?;
        Self::parse(&text).map_err(named)
    }

    /// From a file's text.
    pub(crate) fn parse(text: &str) -> Result<Self, ScenarioError> {
        let document = DeTable::parse(text).map_err(|e| Problem::Syntax(e.message().to_owned()).at(1))?;
        Self::parse_in(&Table::root(&Lines::of(text), document.get_ref()))
    }

    /// From a parsed document.
    pub(crate) fn parse_in(root: &Table<'_>) -> Result<Self, ScenarioError> {
        let mut sweep = Self::default();
        let Some(value) = root.get("sweep") else { return Ok(sweep) };
        for (key, value) in value.table("[sweep]")?.entries() {
            if key == "repeats" {
                let repeats = u32::try_from(value.whole()?).ok().filter(|n| (1..=REPEATS_MAX).contains(n));
                let why = || value.impossible(format!("sweep.repeats lies between 1 and {REPEATS_MAX}"));
                sweep.repeats = Some(repeats.ok_or_else(why)?);
            } else {
                sweep.read(key, &value)?;
            }
        }
        if sweep.axes.len() > AXES_MAX {
            return Err(value.impossible(format!("[sweep] varies {} keys, at most {AXES_MAX}", sweep.axes.len())));
        }
        Ok(sweep)
    }

    /// Reads a key's values; unquoted dots in a key make tables of it.
    fn read(&mut self, key: String, value: &Value<'_>) -> Result<(), ScenarioError> {
        let values = match value.raw() {
            DeValue::Array(list) => {
                let one = |v: &toml::Spanned<DeValue<'_>>| match v.get_ref().as_str() {
                    Some(words) => words.to_owned(),
                    None => inline(v.get_ref()),
                };
                list.iter().map(one).collect()
            }
            DeValue::Table(inner) if inner.contains_key("from") => range(&value.table("{ from, to, steps }")?, value)?,
            DeValue::Table(_) => {
                for (more, value) in value.table("{ from, to, steps }")?.entries() {
                    self.read(format!("{key}.{more}"), &value)?;
                }
                return Ok(());
            }
            _ => {
                let why = format!("{} must be a list of values or {{ from, to, steps }}", value.path);
                return Err(value.impossible(why));
            }
        };
        self.axes.push(Axis { key, values }.checked().map_err(|why| value.impossible(why))?);
        Ok(())
    }

    /// Adds an axis, or replaces the file's axis for that key.
    pub fn set(&mut self, axis: Axis) {
        match self.axes.iter_mut().find(|old| is_same(&old.key, &axis.key)) {
            Some(old) => *old = axis,
            None => self.axes.push(axis),
        }
    }

    /// Why some of the keys would have no effect, given `settings` and each other.
    fn without_effect(&self, settings: &[Setting]) -> Option<String> {
        for (number, axis) in self.axes.iter().enumerate() {
            let key = &axis.key;
            if key == "seed" {
                return Some("seed is no axis: --repeat N runs N seeds of each combination, from --seed on".into());
            }
            if let Some(other) = self.axes[..number].iter().find(|other| lies_in(&other.key, key)) {
                let other = &other.key;
                return Some(match is_same(other, key) {
                    true => format!("{key} is swept twice: name all its values in one list"),
                    false => format!("{key} takes the place of {other}, which varies too: sweep one of them"),
                });
            }
            if let Some(Setting { key: set, .. }) = settings.iter().find(|setting| lies_in(&setting.key, key)) {
                return Some(format!("--set {set} has no effect, for the sweep varies {key}: leave one of them out"));
            }
        }
        None
    }

    /// Every combination as a scenario, with `settings` in all of them; the last axis varies fastest.
    pub fn cells(&self, path: &Path, settings: &[Setting]) -> Result<Vec<Cell>, ScenarioError> {
        let impossible = |why: String| ScenarioError {
            file: Some(path.display().to_string()),
            line: None,
            problem: Box::new(Problem::Impossible(why)),
        };
        let count = self.axes.iter().try_fold(1_usize, |n, axis| n.checked_mul(axis.values.len()));
        let Some(count) = count.filter(|n| *n <= CELLS_MAX) else {
            return Err(impossible(format!("the sweep has more than {CELLS_MAX} combinations: name fewer values")));
        };
        if let Some(why) = self.without_effect(settings) {
            return Err(impossible(why));
        }
        // Errors that exist without the axes are not attributed to them.
        Scenario::load_with(path, settings)?;
        let mut cells = Vec::with_capacity(count);
        for mut number in 0..count {
            let mut values: Vec<String> = Vec::new();
            for axis in self.axes.iter().rev() {
                values.push(axis.values[number % axis.values.len()].clone());
                number /= axis.values.len();
            }
            values.reverse();
            let own = self.axes.iter().zip(&values);
            let own = own.map(|(axis, value)| Setting { key: axis.key.clone(), value: value.clone() });
            let all: Vec<Setting> = settings.iter().cloned().chain(own).collect();
            let scenario = Scenario::load_with(path, &all).map_err(|error| {
                let own = all[settings.len()..].iter().map(|s| format!("{}={}", s.key, s.value));
                let own = own.collect::<Vec<_>>().join(", ");
                ScenarioError { file: Some(format!("{} with the sweep's {own}", path.shown())), ..error }
            })?;
            cells.push(Cell { values, scenario });
        }
        Ok(cells)
    }
}

#[cfg(test)]
#[path = "sweep_tests.rs"]
mod tests;
