//! What a declared setting is, and what is done with all of a group.

use crate::error::FileError;
use crate::table::{Table, Value};
use crate::values::{Number, Setting, text};
use std::borrow::Cow;
use wavelane_base::{Rate, Span};

/// A kind of file. Scenarios write `micro-blocks`, wavelaned's files `micro_blocks`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum File {
    /// Scenarios.
    Scenario,
    /// Those of wavelaned.
    Daemon,
}

/// Smallest and largest value, in base units.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    pub(crate) least: u64,
    pub(crate) most: u64,
    /// Whether zero is possible too, as a value of another kind.
    pub(crate) zero: bool,
    /// What to do about a smaller or a larger value.
    pub(crate) remedies: [&'static str; 2],
    /// What a text is, or those of a list.
    pub(crate) what: &'static str,
}

impl Bounds {
    /// Of a value without any.
    pub const NONE: Self = Self::of(0, u64::MAX);

    /// Of a count, or in base units.
    pub const fn of(least: u64, most: u64) -> Self {
        Self { least, most, zero: false, remedies: [""; 2], what: "" }
    }
    /// Of a text, or of each in a list.
    pub const fn texts(what: &'static str) -> Self {
        Self { what, ..Self::NONE }
    }
    /// Of a time.
    pub const fn times(least: Span, most: Span) -> Self {
        Self::of(least.as_nanos(), most.as_nanos())
    }
    /// Of a rate; what to do about a lower or a higher one.
    pub const fn rates(least: Rate, most: Rate, remedies: [&'static str; 2]) -> Self {
        Self { remedies, ..Self::of(least.as_bps(), most.as_bps()) }
    }
    /// The same, and zero.
    pub const fn or_zero(self) -> Self {
        Self { zero: true, ..self }
    }
    /// Whether a value lies inside.
    pub fn hold(&self, units: u64) -> bool {
        (self.least..=self.most).contains(&units) || (self.zero && units == 0)
    }
    /// The bounds in words.
    pub(crate) fn range<N: Number>(&self, between: &str) -> String {
        match self.most {
            u64::MAX => format!("from {}", N::show(self.least)),
            most => format!("{}{between}{}", N::show(self.least), N::show(most)),
        }
    }
    /// Why a value outside is refused.
    pub(crate) fn refuse<N: Number>(&self, units: u64) -> String {
        let zero = if self.zero { format!("be {}, or ", N::show(0)) } else { String::new() };
        let remedy = self.remedies[usize::from(units > self.most)];
        let colon = if remedy.is_empty() { "" } else { ": " };
        let lie = match self.most {
            u64::MAX => format!("be at least {}", N::show(self.least)),
            _ => format!("lie between {}", self.range::<N>(" and ")),
        };
        format!("= {} must {zero}{lie}{colon}{remedy}", N::show(units))
    }
}

/// A field of a group's settings: unset, or with a value of its kind.
pub trait Field {
    /// Sets it.
    fn read(&mut self, value: &Value<'_>, bounds: &Bounds) -> Result<(), FileError>;
    /// Its TOML, if it is set.
    fn write(&self) -> Option<String>;
    /// Why it lies outside the bounds, if it does.
    fn refusal(&self, _: &Bounds) -> Option<String> {
        None
    }
    /// Which values there are, for the guide.
    fn values(&self, bounds: &Bounds) -> String;
    /// The same in the words of JSON schema.
    fn schema(&self, bounds: &Bounds) -> String;
}

impl<T: Setting> Field for Option<T> {
    fn read(&mut self, value: &Value<'_>, bounds: &Bounds) -> Result<(), FileError> {
        *self = Some(T::read(value, bounds)?);
        Ok(())
    }
    fn write(&self) -> Option<String> {
        self.as_ref().map(T::toml)
    }
    fn refusal(&self, bounds: &Bounds) -> Option<String> {
        self.as_ref().and_then(|value| value.refusal(bounds))
    }
    fn values(&self, bounds: &Bounds) -> String {
        T::values(bounds)
    }
    fn schema(&self, bounds: &Bounds) -> String {
        T::schema(bounds)
    }
}

/// A switch that always has a value.
impl Field for bool {
    fn read(&mut self, value: &Value<'_>, _: &Bounds) -> Result<(), FileError> {
        *self = value.bool()?;
        Ok(())
    }
    fn write(&self) -> Option<String> {
        Some(self.toml())
    }
    fn values(&self, bounds: &Bounds) -> String {
        <Self as Setting>::values(bounds)
    }
    fn schema(&self, bounds: &Bounds) -> String {
        <Self as Setting>::schema(bounds)
    }
}

/// Names, of which none stands twice.
impl Field for Vec<String> {
    fn read(&mut self, value: &Value<'_>, _: &Bounds) -> Result<(), FileError> {
        for item in value.list("a list of names", "[\"modem\"]")? {
            let name = item.str("a name", "\"modem\"")?.to_owned();
            if self.contains(&name) {
                return Err(item.impossible(format!("{} names '{name}' twice: remove one", value.path)));
            }
            self.push(name);
        }
        Ok(())
    }
    fn write(&self) -> Option<String> {
        let names: Vec<String> = self.iter().map(|name| text(name)).collect();
        (!names.is_empty()).then(|| format!("[{}]", names.join(", ")))
    }
    fn values(&self, _: &Bounds) -> String {
        "list of names".into()
    }
    fn schema(&self, _: &Bounds) -> String {
        "\"type\": \"array\", \"items\": {\"type\": \"string\"}".into()
    }
}

/// A value for each of some names.
impl<N: Number> Field for Vec<(String, N)> {
    fn read(&mut self, value: &Value<'_>, bounds: &Bounds) -> Result<(), FileError> {
        for (name, value) in value.table("{ modem = \"33.6 kbit/s\" }")?.entries() {
            self.push((name, N::read(&value, bounds)?));
        }
        Ok(())
    }
    fn write(&self) -> Option<String> {
        let all: Vec<String> =
            self.iter().map(|(name, number)| format!("{} = {}", text(name), number.toml())).collect();
        (!all.is_empty()).then(|| format!("{{ {} }}", all.join(", ")))
    }
    fn refusal(&self, bounds: &Bounds) -> Option<String> {
        self.iter().find_map(|(_, number)| number.refusal(bounds))
    }
    fn values(&self, bounds: &Bounds) -> String {
        format!("of each, {}", N::values(bounds))
    }
    fn schema(&self, bounds: &Bounds) -> String {
        format!("\"type\": \"object\", \"additionalProperties\": {{{}}}", N::schema(bounds))
    }
}

/// One setting of a group `S`.
pub struct Knob<S: 'static> {
    /// Its key, as scenarios write it.
    pub name: &'static str,
    /// In which files it may stand.
    pub stands: &'static [File],
    /// Its bounds.
    pub bounds: Bounds,
    /// What holds where it is not set.
    pub default: &'static str,
    /// What it does, for the guide.
    pub says: &'static str,
    /// Its field.
    pub field: fn(&mut S) -> &mut dyn Field,
}

impl<S> Knob<S> {
    /// Its key in a file.
    pub fn key(&self, file: File) -> Cow<'static, str> {
        match file {
            File::Scenario => Cow::Borrowed(self.name),
            File::Daemon => Cow::Owned(self.name.replace('-', "_")),
        }
    }
    /// What it may be, if its table cannot do without it.
    fn example(&self) -> Option<&'static str> {
        self.default.strip_prefix("required, such as `")?.strip_suffix('`')
    }
}

/// A setting outside its bounds.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct OutOfBounds(String);

/// Settings that stand in one table.
pub struct Group<S: 'static>(pub &'static [Knob<S>]);

impl<S: Clone + Default> Group<S> {
    /// Those that may stand in a file.
    pub fn in_file(&self, file: File) -> impl Iterator<Item = &'static Knob<S>> + use<S> {
        self.0.iter().filter(move |knob| knob.stands.contains(&file))
    }
    /// Their keys there.
    pub fn keys(&self, file: File) -> Vec<Cow<'static, str>> {
        self.in_file(file).map(|knob| knob.key(file)).collect()
    }
    /// Reads those that a table has; whether it has other keys is not looked at.
    pub fn read(&self, file: File, table: &Table<'_>) -> Result<S, FileError> {
        let mut settings = S::default();
        for knob in self.in_file(file) {
            if let Some(value) = table.get(&knob.key(file)) {
                (knob.field)(&mut settings).read(&value, &knob.bounds)?;
            }
        }
        Ok(settings)
    }
    /// Reads a table that has nothing else but what is `below` it.
    pub fn whole(&self, file: File, table: &Table<'_>, below: &[&str]) -> Result<S, FileError> {
        let keys = self.keys(file);
        table.only(&keys.iter().map(AsRef::as_ref).chain(below.iter().copied()).collect::<Vec<_>>())?;
        for knob in self.in_file(file) {
            table.lacks(&knob.key(file), knob.example())?;
        }
        self.read(file, table)
    }
    /// Reads each table of that name below another.
    pub fn each(&self, root: &Table<'_>, key: &str) -> Result<Vec<S>, FileError> {
        root.parts(key)?.iter().map(|table| self.whole(File::Daemon, table, &[])).collect()
    }
    /// Keys and values of those that are set and may stand in a file, as TOML.
    pub fn turned(&self, file: File, settings: &S) -> Vec<(Cow<'static, str>, String)> {
        let mut settings = settings.clone();
        self.in_file(file).filter_map(|knob| Some((knob.key(file), (knob.field)(&mut settings).write()?))).collect()
    }
    /// The same, a line each.
    pub fn write(&self, file: File, settings: &S) -> String {
        self.turned(file, settings).iter().map(|(key, value)| format!("{key} = {value}\n")).collect()
    }
    /// Refuses values outside their bounds, wherever they come from.
    pub fn check(&self, settings: &S) -> Result<(), OutOfBounds> {
        let mut settings = settings.clone();
        for knob in self.0 {
            if let Some(why) = (knob.field)(&mut settings).refusal(&knob.bounds) {
                return Err(OutOfBounds(format!("{} {why}", knob.key(File::Daemon))));
            }
        }
        Ok(())
    }
}
