//! A TOML table that knows its path and lines, and rejects unknown keys.

use crate::error::{FileError, Problem, hint};
use crate::knob::{Bounds, File, Group};
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use wavelane_base::Quantity;

/// Where the lines of a text begin, so that the line of each of its values costs a search and no count from its start.
pub struct Lines {
    starts: Vec<usize>,
}

/// A reader over one table of the file.
#[derive(Clone)]
pub struct Table<'a> {
    lines: &'a Lines,
    path: String,
    line: usize,
    inner: &'a DeTable<'a>,
}

/// One value with its full path and line.
#[derive(Clone)]
pub struct Value<'a> {
    lines: &'a Lines,
    /// The key's full path, such as `channels.air.forward.rate`.
    pub path: String,
    /// Its line, from 1.
    pub line: usize,
    inner: &'a DeValue<'a>,
    /// Whether a setting gave it: a number is then taken as text where a text is wanted, and a single value as a list of one.
    is_set: bool,
}

impl Lines {
    /// Those of a text.
    pub fn of(text: &str) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, octet)| *octet == b'\n');
        Self { starts: ends.map(|(at, _)| at + 1).collect() }
    }
    /// The line of a byte offset, from 1.
    pub fn at(&self, offset: usize) -> usize {
        self.starts.partition_point(|start| *start <= offset) + 1
    }
}

impl<'a> Table<'a> {
    /// The whole document.
    pub fn root(lines: &'a Lines, inner: &'a DeTable<'a>) -> Self {
        Self { lines, path: String::new(), line: 1, inner }
    }
    /// A table of the document by its name.
    pub fn at(lines: &'a Lines, path: &str, inner: &'a DeTable<'a>) -> Self {
        Self { path: path.to_owned(), ..Self::root(lines, inner) }
    }
    /// Its name in messages.
    pub fn title(&self) -> String {
        if self.path.is_empty() { "the top level".into() } else { format!("[{}]", self.path) }
    }
    /// Rejects keys outside `known`.
    pub fn only(&self, known: &[impl AsRef<str>]) -> Result<(), FileError> {
        let mut unknown: Vec<_> =
            self.inner.keys().filter(|key| !known.iter().any(|k| k.as_ref() == key.get_ref().as_ref())).collect();
        unknown.sort_by_key(|k| k.span().start);
        match unknown.first() {
            None => Ok(()),
            Some(key) => {
                let name = key.get_ref().replace(['\n', '\r'], " ");
                let hint = hint(&name, known.iter().map(AsRef::as_ref));
                Err(Problem::UnknownKey { key: name, table: self.title(), hint }.at(self.lines.at(key.span().start)))
            }
        }
    }
    fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }
    fn value(&self, key: &str, spanned: &'a Spanned<DeValue<'a>>, line: usize) -> Value<'a> {
        // What a setting of the command line gave has an empty span, as nothing in a file has.
        let is_set = spanned.span().is_empty();
        Value { lines: self.lines, path: self.path_of(key), line, inner: spanned.get_ref(), is_set }
    }
    /// The value of `key`, if present.
    pub fn get(&self, key: &str) -> Option<Value<'a>> {
        let (name, value) = self.inner.iter().find(|(k, _)| k.get_ref().as_ref() == key)?;
        Some(self.value(key, value, self.lines.at(name.span().start)))
    }
    /// The value of `key`, or the error that shows how to add it.
    pub fn need(&self, key: &'static str, example: &'static str) -> Result<Value<'a>, FileError> {
        self.get(key).ok_or_else(|| Problem::Missing { table: self.title(), key: key.into(), example }.at(self.line))
    }
    /// Refuses the table if it has no such key, and that has an example.
    pub(crate) fn lacks(&self, key: &str, example: Option<&'static str>) -> Result<(), FileError> {
        match example.filter(|_| !self.inner.contains_key(key)) {
            Some(example) => Err(Problem::Missing { table: self.title(), key: key.into(), example }.at(self.line)),
            None => Ok(()),
        }
    }
    /// The line of its title.
    pub fn line(&self) -> usize {
        self.line
    }
    /// The table below it of that name, with the settings of `group` alone.
    pub fn part<S: Clone + Default>(&self, key: &str, group: &Group<S>) -> Result<Option<S>, FileError> {
        let of = |value: Value<'a>| group.whole(File::Daemon, &value.titled()?, &[]);
        self.get(key).map(of).transpose()
    }
    /// The tables below it of that name, each with a title of its own.
    pub fn parts(&self, key: &str) -> Result<Vec<Self>, FileError> {
        let Some(value) = self.get(key) else { return Ok(Vec::new()) };
        let (path, all) = (&value.path, "a list of tables, each with a title of its own");
        if value.inner.is_table() {
            let of = if self.path.is_empty() {
                String::new()
            } else {
                format!(", below the [{0}] or [[{0}]] that it belongs to", self.path)
            };
            return Err(value.impossible(format!("{path} is {all}: write [[{path}]]{of}, not [{path}]")));
        }
        value.list(all, &format!("[[{path}]]"))?.iter().map(Value::titled).collect()
    }
    /// The keys and values in file order.
    pub fn entries(&self) -> Vec<(String, Value<'a>)> {
        let mut all: Vec<_> = self.inner.iter().collect();
        all.sort_by_key(|(k, _)| k.span().start);
        let line = |offset| self.lines.at(offset);
        all.into_iter()
            .map(|(k, v)| (k.get_ref().to_string(), self.value(k.get_ref(), v, line(k.span().start))))
            .collect()
    }
    /// An optional quantity.
    pub fn quantity<Q: Quantity>(&self, key: &str) -> Result<Option<Q>, FileError> {
        self.get(key).map(|v| v.quantity()).transpose()
    }
}

impl<'a> Value<'a> {
    fn wrong_type(&self, expected: &str, example: &str) -> FileError {
        let got = match self.inner {
            DeValue::String(_) => "a text".into(),
            DeValue::Integer(number) => number.to_string(),
            DeValue::Float(number) => number.to_string(),
            DeValue::Boolean(value) => value.to_string(),
            DeValue::Datetime(_) => "a date".into(),
            DeValue::Array(_) => "a list".into(),
            DeValue::Table(_) => "a table".into(),
        };
        Problem::WrongType { key: self.path.clone(), expected: expected.into(), example: example.to_owned(), got }
            .at(self.line)
    }
    /// An error about this value.
    pub fn impossible(&self, why: impl Into<String>) -> FileError {
        Problem::Impossible(why.into()).at(self.line)
    }
    /// The raw TOML value.
    pub fn raw(&self) -> &'a DeValue<'a> {
        self.inner
    }
    /// The value as text, or an error.
    pub fn str(&self, expected: &str, example: &str) -> Result<&'a str, FileError> {
        self.words().ok_or_else(|| self.wrong_type(expected, example))
    }
    /// A text, or the digits of a decimal number that a setting gave.
    fn words(&self) -> Option<&'a str> {
        match self.inner {
            DeValue::Integer(number) if self.is_set && number.radix() == 10 => Some(number.as_str()),
            DeValue::Float(number) if self.is_set => Some(number.as_str()),
            other => other.as_str(),
        }
    }
    /// The value as text, if it is one.
    pub fn as_str(&self) -> Option<&'a str> {
        self.inner.as_str()
    }
    /// As a quantity with unit.
    pub fn quantity<Q: Quantity>(&self) -> Result<Q, FileError> {
        let text = self.words().ok_or_else(|| self.wrong_type(Q::EXPECTED, &format!("\"{}\"", Q::EXAMPLE)))?;
        Q::parse(text).map_err(|error| Problem::Unit { key: self.path.clone(), error }.at(self.line))
    }
    /// As a whole number from 0.
    pub fn whole(&self) -> Result<u64, FileError> {
        self.whole_within(&Bounds::NONE, 7)
    }
    /// The same; the bounds are those of what the hint says.
    pub(crate) fn whole_within(&self, bounds: &Bounds, example: u64) -> Result<u64, FileError> {
        let number = self.inner.as_integer().and_then(|i| u64::from_str_radix(i.as_str(), i.radix()).ok());
        number.ok_or_else(|| {
            // What was written may be meant without quotes and unit.
            let meant: String = self.as_str().unwrap_or_default().chars().take_while(char::is_ascii_digit).collect();
            let holds = meant.parse().is_ok_and(|meant| bounds.hold(meant));
            self.wrong_type("a whole number from 0", &if holds { meant } else { example.to_string() })
        })
    }
    /// As true or false.
    pub fn bool(&self) -> Result<bool, FileError> {
        self.inner.as_bool().ok_or_else(|| self.wrong_type("true or false", "true"))
    }
    /// As a list.
    pub fn list(&self, expected: &str, example: &str) -> Result<Vec<Value<'a>>, FileError> {
        self.list_of(expected, example, |_| true)
    }
    /// The same, of what `may_be_one` takes: such a text may be meant as the only one.
    pub(crate) fn list_of(
        &self,
        expected: &str,
        example: &str,
        may_be_one: impl Fn(&str) -> bool,
    ) -> Result<Vec<Value<'a>>, FileError> {
        let is_one = self.is_set && !self.inner.is_array() && !self.inner.is_table();
        if is_one {
            return Ok(vec![self.clone()]);
        }
        let meant = self.as_str().filter(|one| may_be_one(one)).map(|one| format!("[{}]", crate::text(one)));
        let array =
            self.inner.as_array().ok_or_else(|| self.wrong_type(expected, meant.as_deref().unwrap_or(example)))?;
        let item = |v: &'a Spanned<DeValue<'a>>| Value {
            lines: self.lines,
            path: self.path.clone(),
            line: self.lines.at(v.span().start),
            inner: v.get_ref(),
            is_set: false,
        };
        Ok(array.iter().map(item).collect())
    }
    /// As a table whose title stands at its line.
    pub fn titled(&self) -> Result<Table<'a>, FileError> {
        let inner = self.inner.as_table().ok_or_else(|| self.wrong_type("a table", &format!("[{}]", self.path)))?;
        Ok(Table { lines: self.lines, path: self.path.clone(), line: self.line, inner })
    }
    /// As a table.
    pub fn table(&self, example: &str) -> Result<Table<'a>, FileError> {
        let inner = self.inner.as_table().ok_or_else(|| self.wrong_type("a table", example))?;
        let first = inner.keys().map(|k| k.span().start).min();
        let line = first.map_or(self.line, |offset| self.lines.at(offset));
        Ok(Table { lines: self.lines, path: self.path.clone(), line, inner })
    }
}
