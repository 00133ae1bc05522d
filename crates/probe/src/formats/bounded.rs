//! Bounded JSON parsing: a compressed file of some kilobytes may expand to a hundred million empty objects.

use super::FormatError;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::fmt;

/// Approximate memory limit for the values of one file: lists and trees grow by more than their new element.
pub(super) const MEMORY_MAX: u64 = 2 << 30;
/// A value in a list that grows by doubling.
const VALUE: u64 = 64;
/// An object with members, whose tree node has room for eleven; and a member, beside its name.
const OBJECT: u64 = 640;
const MEMBER: u64 = 64;

/// Reads one document.
pub(super) fn read(text: &[u8], memory: u64) -> Result<Value, FormatError> {
    let mut left = Some(memory);
    let mut from = serde_json::Deserializer::from_slice(text);
    let value = Room(&mut left).deserialize(&mut from).and_then(|value| from.end().map(|()| value));
    match left {
        None => Err(FormatError::TooLarge),
        Some(_) => Ok(value?),
    }
}

/// The same of one among several, which have `left` together.
pub(super) fn read_some(text: &[u8], left: &mut u64) -> Result<Value, FormatError> {
    let mut room = Some(*left);
    let value = Room(&mut room).deserialize(&mut serde_json::Deserializer::from_slice(text));
    *left = room.ok_or(FormatError::TooLarge)?;
    Ok(value?)
}

/// The remaining memory; `None` once it was exceeded.
struct Room<'a>(&'a mut Option<u64>);

impl Room<'_> {
    fn take<E: Error>(&mut self, octets: u64) -> Result<(), E> {
        *self.0 = self.0.and_then(|left| left.checked_sub(octets));
        self.0.map(drop).ok_or_else(|| E::custom("too large"))
    }
    fn text<E: Error>(&mut self, text: String) -> Result<Value, E> {
        self.take(VALUE + text.len() as u64)?;
        Ok(Value::String(text))
    }
    fn number<E: Error>(&mut self, number: Option<Number>) -> Result<Value, E> {
        self.take(VALUE)?;
        Ok(number.map_or(Value::Null, Value::Number))
    }
}

impl<'de> DeserializeSeed<'de> for Room<'_> {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Room<'_> {
    type Value = Value;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }
    fn visit_unit<E: Error>(mut self) -> Result<Value, E> {
        self.number(None)
    }
    fn visit_bool<E: Error>(mut self, is: bool) -> Result<Value, E> {
        self.take(VALUE)?;
        Ok(Value::Bool(is))
    }
    fn visit_u64<E: Error>(mut self, n: u64) -> Result<Value, E> {
        self.number(Some(n.into()))
    }
    fn visit_i64<E: Error>(mut self, n: i64) -> Result<Value, E> {
        self.number(Some(n.into()))
    }
    fn visit_f64<E: Error>(mut self, n: f64) -> Result<Value, E> {
        self.number(Number::from_f64(n))
    }
    fn visit_str<E: Error>(mut self, text: &str) -> Result<Value, E> {
        self.text(text.to_owned())
    }
    fn visit_string<E: Error>(mut self, text: String) -> Result<Value, E> {
        self.text(text)
    }
    fn visit_seq<A: SeqAccess<'de>>(mut self, mut all: A) -> Result<Value, A::Error> {
        self.take(VALUE)?;
        let mut list = Vec::new();
        while let Some(value) = all.next_element_seed(Room(&mut *self.0))? {
            list.push(value);
        }
        Ok(Value::Array(list))
    }
    fn visit_map<A: MapAccess<'de>>(mut self, mut all: A) -> Result<Value, A::Error> {
        self.take(VALUE)?;
        let mut object = Map::new();
        while let Some(name) = all.next_key::<String>()? {
            self.take(MEMBER + name.len() as u64 + if object.is_empty() { OBJECT } else { 0 })?;
            object.insert(name, all.next_value_seed(Room(&mut *self.0))?);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn values_are_those_of_the_text() {
        for text in
            ["null", "[1,-2,3.5,true,\"x\",{}]", "{\"a\":{\"b\":[[],null]},\"c\":18446744073709551615}", " 1e300 "]
        {
            assert_eq!(read(text.as_bytes(), MEMORY_MAX).unwrap(), serde_json::from_str::<Value>(text).unwrap());
        }
        for text in ["", "[1", "{} {}", "[1,]"] {
            assert!(matches!(read(text.as_bytes(), MEMORY_MAX), Err(FormatError::Json(_))), "{text}");
        }
    }

    #[test]
    fn what_takes_much_memory_for_few_octets_is_refused() {
        for one in ["[],", "{\"\":0},", "0,", "\"\","] {
            let text = format!("[{}0]", one.repeat(10_000));
            let why = read(text.as_bytes(), 500_000).unwrap_err();
            assert!(matches!(why, FormatError::TooLarge) && why.to_string().contains("shorten"), "{one}: {why}");
            assert!(read(text.as_bytes(), 10_000_000).is_ok(), "{one}");
        }
    }
}
