//! The kinds of values that a setting may have.

use crate::error::{FileError, Problem, hint};
use crate::knob::Bounds;
use crate::table::Value;
use core::fmt::Write;
use std::net::IpAddr;
use wavelane_base::text::line;
use wavelane_base::{Octets, Quantity, Rate, Ratio, Span};

/// A TOML basic string.
pub fn text(value: &str) -> String {
    let mut out = String::from("\"");
    for c in value.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A quantity as a TOML string.
pub fn unit(value: &impl Quantity) -> String {
    text(&value.write())
}

/// The entry of `word`, or a hint at the nearest.
pub fn look_up<T: Clone>(list: &[(&'static str, T)], word: &str) -> Result<T, String> {
    match list.iter().find(|(w, _)| *w == word) {
        Some((_, value)) => Ok(value.clone()),
        None => Err(hint(word, list.iter().map(|(w, _)| *w))),
    }
}

/// The word of `value`.
pub fn word_of<T: PartialEq>(list: &[(&'static str, T)], value: &T) -> &'static str {
    list.iter().find(|(_, v)| v == value).map_or("?", |(w, _)| *w)
}

/// A word of a closed list.
pub fn word<T: Clone>(
    value: &Value<'_>,
    what: &str,
    list: &[(&'static str, T)],
    example: &str,
) -> Result<T, FileError> {
    // A number may be meant as the word that it is.
    let number = value.raw().as_integer().map(|number| number.as_str());
    let meant = list.iter().find(|(word, _)| Some(*word) == number).map(|(word, _)| self::text(word));
    let text = value.str("a text in quotes", meant.as_deref().unwrap_or(example))?;
    look_up(list, text)
        .map_err(|hint| Problem::UnknownWord { what: what.into(), word: text.into(), hint }.at(value.line))
}

/// A value of a setting. A closed list of words needs nothing but [`Setting::WORDS`].
pub trait Setting: Clone + PartialEq + 'static {
    /// Its words, if it is a closed list.
    const WORDS: &'static [(&'static str, Self)] = &[];

    /// Reads it.
    fn read(value: &Value<'_>, _: &Bounds) -> Result<Self, FileError> {
        let key = value.path.rsplit('.').next().unwrap_or_default();
        word(value, key, Self::WORDS, &text(Self::WORDS.first().map_or("", |(word, _)| word)))
    }
    /// Writes it as TOML, so that `read` gives the same value.
    fn toml(&self) -> String {
        text(word_of(Self::WORDS, self))
    }
    /// Why it lies outside the bounds, if it does.
    fn refusal(&self, _: &Bounds) -> Option<String> {
        None
    }
    /// Which values there are, for the guide.
    fn values(_: &Bounds) -> String {
        Self::WORDS.iter().map(|(word, _)| format!("`{word}`")).collect::<Vec<_>>().join(", ")
    }
    /// What TOML has it as, in the words of JSON schema.
    fn schema(_: &Bounds) -> String {
        let words: Vec<String> = Self::WORDS.iter().map(|(word, _)| text(word)).collect();
        match words.is_empty() {
            true => "\"type\": \"string\"".into(),
            false => format!("\"enum\": [{}]", words.join(", ")),
        }
    }
}

impl Setting for bool {
    fn read(value: &Value<'_>, _: &Bounds) -> Result<Self, FileError> {
        value.bool()
    }
    fn toml(&self) -> String {
        self.to_string()
    }
    fn values(bounds: &Bounds) -> String {
        if bounds.what.is_empty() { "`true`, `false`".into() } else { bounds.what.into() }
    }
    fn schema(_: &Bounds) -> String {
        "\"type\": \"boolean\"".into()
    }
}

impl Setting for Ratio {
    fn read(value: &Value<'_>, _: &Bounds) -> Result<Self, FileError> {
        value.quantity()
    }
    fn toml(&self) -> String {
        unit(self)
    }
    fn values(_: &Bounds) -> String {
        "probability".into()
    }
    fn schema(_: &Bounds) -> String {
        format!("\"type\": \"string\", \"pattern\": {}", text(&Self::pattern()))
    }
}

/// One of what texts are.
fn example(what: &str) -> &str {
    match what {
        "networks" => "10.1.0.0/16",
        "addresses" | "IPv4 address" | "IPv4 address, or `ADDRESS:PORT`" => "192.0.2.1",
        "interfaces" | "interface" | "interface, or path of a port" => "eth0",
        "rate" | "rate, or `auto`" => "18 Mbit/s",
        "one word" => "shore",
        "path" => "/etc/wavelane/file",
        "base64" => "44 characters",
        "texts" => "port 22",
        forms => forms.split('`').nth(1).unwrap_or("text"),
    }
}

/// Longest name: files are called by it.
pub const NAME_MAX: usize = 64;

/// Whether something can be called so: the name stands in file names, on terminals, in pages and in what a hook is told.
pub fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_alphanumeric() || "-_.".contains(c);
    (1..=NAME_MAX).contains(&name.chars().count()) && name.chars().all(fits) && !name.starts_with(['-', '.'])
}

impl Setting for String {
    fn read(value: &Value<'_>, bounds: &Bounds) -> Result<Self, FileError> {
        let read = value.str("a text in quotes", &text(example(bounds.what)))?;
        if bounds.what == "one word" && !is_name(read) {
            return Err(value.impossible(format!(
                "{} = '{}' is no name: use letters, digits, '-', '_' and '.', {NAME_MAX} at most, such as \"ship\"",
                value.path,
                line(read, NAME_MAX)
            )));
        }
        Ok(read.to_owned())
    }
    fn toml(&self) -> String {
        text(self)
    }
    fn values(bounds: &Bounds) -> String {
        if bounds.what.is_empty() { "text".into() } else { bounds.what.into() }
    }
}

/// Texts, of which one may stand twice.
impl Setting for Vec<String> {
    fn read(value: &Value<'_>, bounds: &Bounds) -> Result<Self, FileError> {
        let one = text(example(bounds.what));
        // A network or an address, or what has no form that is known here.
        let is_one = |meant: &str| match bounds.what {
            "networks" | "addresses" => meant.split('/').next().is_some_and(|host| host.parse::<IpAddr>().is_ok()),
            "interfaces" => !meant.contains(char::is_whitespace),
            _ => true,
        };
        let texts = value.list_of(&format!("a list of {}", bounds.what), &format!("[{one}]"), is_one)?;
        texts.iter().map(|text| text.str("a text in quotes", &one).map(str::to_owned)).collect()
    }
    fn toml(&self) -> String {
        format!("[{}]", self.iter().map(|item| text(item)).collect::<Vec<_>>().join(", "))
    }
    fn values(bounds: &Bounds) -> String {
        bounds.what.into()
    }
    fn schema(_: &Bounds) -> String {
        "\"type\": \"array\", \"items\": {\"type\": \"string\"}".into()
    }
}

/// A value with an order, counted in base units: octets, nanoseconds, bit/s or things.
pub trait Number: Copy + PartialEq + 'static {
    /// What it is, for the guide.
    const WHAT: &'static str;
    /// Reads its base units; the bounds are for a hint alone.
    fn units(value: &Value<'_>, bounds: &Bounds) -> Result<u64, FileError>;
    /// The number of those units, if there is one.
    fn of(units: u64) -> Option<Self>;
    /// Its units.
    fn get(self) -> u64;
    /// What a text of it looks like, if it is one.
    fn pattern() -> String {
        String::new()
    }
    /// Units as people write them.
    fn show(units: u64) -> String {
        units.to_string()
    }
}

impl<N: Number> Setting for N {
    fn read(value: &Value<'_>, bounds: &Bounds) -> Result<Self, FileError> {
        let units = N::units(value, bounds)?;
        let refused = |why: String| value.impossible(format!("{} {why}", value.path));
        match N::of(units) {
            Some(number) => number.refusal(bounds).map_or(Ok(number), |why| Err(refused(why))),
            None => Err(refused(bounds.refuse::<N>(units))),
        }
    }
    fn toml(&self) -> String {
        let shown = N::show(self.get());
        if N::WHAT.is_empty() { shown } else { text(&shown) }
    }
    fn refusal(&self, bounds: &Bounds) -> Option<String> {
        (!bounds.hold(self.get())).then(|| bounds.refuse::<N>(self.get()))
    }
    fn values(bounds: &Bounds) -> String {
        let what = if N::WHAT.is_empty() { String::new() } else { format!("{}, ", N::WHAT) };
        match bounds.zero {
            true if bounds.least == 1 => format!("{what}{}", Bounds { least: 0, ..*bounds }.range::<N>(" to ")),
            true => format!("{what}{} or {}", N::show(0), bounds.range::<N>(" to ")),
            false => format!("{what}{}", bounds.range::<N>(" to ")),
        }
    }
    fn schema(bounds: &Bounds) -> String {
        let least = if bounds.zero { 0 } else { bounds.least };
        match N::WHAT {
            "" => format!("\"type\": \"integer\", \"minimum\": {least}, \"maximum\": {}", bounds.most),
            _ => format!("\"type\": \"string\", \"pattern\": {}", text(&N::pattern())),
        }
    }
}

/// Quantities: what they are, and the functions between them and their units.
macro_rules! quantities {
    ($($kind:ty, $what:literal, $of:path, $get:path;)*) => {$(
        impl Number for $kind {
            const WHAT: &'static str = $what;
            fn units(value: &Value<'_>, _: &Bounds) -> Result<u64, FileError> {
                value.quantity().map($get)
            }
            fn of(units: u64) -> Option<Self> {
                Some($of(units))
            }
            fn get(self) -> u64 {
                $get(self)
            }
            fn show(units: u64) -> String {
                $of(units).write()
            }
            fn pattern() -> String {
                <$kind as Quantity>::pattern()
            }
        }
    )*};
}
quantities! {
    Octets, "size", Octets::new, Octets::get;
    Span, "time", Span::from_nanos, Span::as_nanos;
    Rate, "rate", Rate::from_bps, Rate::as_bps;
}

/// Counts.
macro_rules! counts {
    ($($kind:ty)*) => {$(
        impl Number for $kind {
            const WHAT: &'static str = "";
            fn units(value: &Value<'_>, bounds: &Bounds) -> Result<u64, FileError> {
                value.whole_within(bounds, bounds.least)
            }
            fn of(units: u64) -> Option<Self> {
                Self::try_from(units).ok()
            }
            fn get(self) -> u64 {
                self as u64
            }
        }
    )*};
}
counts! { u8 u16 u32 usize }

/// A value that may be the word `off`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OrOff<N>(pub Option<N>);

impl<N: Number> Setting for OrOff<N> {
    fn read(value: &Value<'_>, bounds: &Bounds) -> Result<Self, FileError> {
        match value.as_str() {
            Some("off") => Ok(Self(None)),
            // Whatever is no such value: both are possible.
            _ => N::read(value, bounds).map(|n| Self(Some(n))).map_err(|error| match *error.problem {
                Problem::Impossible(_) => error,
                other => Problem::Impossible(format!("{other}, or \"off\"")).at(value.line),
            }),
        }
    }
    fn toml(&self) -> String {
        self.0.map_or_else(|| text("off"), |number| number.toml())
    }
    fn refusal(&self, bounds: &Bounds) -> Option<String> {
        self.0.and_then(|number| number.refusal(bounds))
    }
    fn values(bounds: &Bounds) -> String {
        format!("{}, or `off`", N::values(bounds))
    }
    fn schema(bounds: &Bounds) -> String {
        format!("\"anyOf\": [{{{}}}, {{\"const\": \"off\"}}]", N::schema(bounds))
    }
}
