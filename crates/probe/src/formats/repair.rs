//! Result files as they are found: numbers that JSON does not have, text around the document, several documents, a missing end.
//!
//! A file in order is read as it is. Of any other the documents are sought in the text, and what was done is said.

use super::FormatError;
use super::bounded;
use serde_json::{Map, Value, json};

/// Most documents of one file: an interval of `iperf3 --json-stream` is one.
const DOCUMENTS_MAX: usize = 1 << 20;
/// Deepest nesting that is followed; serde_json refuses more.
const DEPTH_MAX: usize = 128;

/// Reads a file's document, and what had to be repaired.
pub(super) fn read(text: &[u8]) -> Result<(Value, Vec<String>), FormatError> {
    let mut notes = Vec::new();
    let utf8;
    let text = match text {
        [0xEF, 0xBB, 0xBF, rest @ ..] => {
            notes.push("a byte order mark was left out".to_owned());
            rest
        }
        [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..] => {
            notes.push("it was converted from UTF-16".to_owned());
            utf8 = from_utf16(text);
            utf8.as_bytes()
        }
        _ => text,
    };
    let plain = match bounded::read(text, bounded::MEMORY_MAX) {
        Ok(value) if value.get("event").is_none() => return Ok((value, notes)),
        Err(FormatError::TooLarge) => return Err(FormatError::TooLarge),
        other => other,
    };
    let mut found = scan(text, false);
    if found.documents.is_empty() {
        // Whoever keeps logs may put a time before each line.
        found = scan(text, true);
    }
    if found.documents.is_empty() {
        return plain.map(|value| (value, notes));
    }
    let mut left = bounded::MEMORY_MAX;
    let mut values = Vec::new();
    for document in &found.documents {
        match bounded::read_some(&found.text[document.clone()], &mut left) {
            Ok(value) => values.push(value),
            Err(FormatError::TooLarge) => return Err(FormatError::TooLarge),
            // The first error of the whole text says most.
            Err(why) => return Err(plain.err().unwrap_or(why)),
        }
    }
    found.tell(&mut notes);
    Ok((one_of(values, &mut notes), notes))
}

fn from_utf16(text: &[u8]) -> String {
    let is_big = text[0] == 0xFE;
    let pairs = text[2..].chunks_exact(2).map(|p| [p[0], p[1]]);
    let units = pairs.map(|pair| if is_big { u16::from_be_bytes(pair) } else { u16::from_le_bytes(pair) });
    char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}

/// The document that several are, with the events of each test put together: the last that holds a result.
fn one_of(values: Vec<Value>, notes: &mut Vec<String>) -> Value {
    let mut documents = tests_of(values);
    let all = documents.len();
    let same = documents.windows(2).all(|two| two[0].0 == two[1].0);
    let mut read = all.saturating_sub(1);
    if all > 1 && same {
        notes.push(format!("the same document stands there {all} times; it was read once"));
    } else if all > 1 {
        let holds = |value: &Value| value.as_array().is_none_or(|list| !list.is_empty());
        let is_result =
            |value: &Value| ["intervals", "results", "round_trips"].iter().any(|key| value.get(key).is_some_and(holds));
        read = documents.iter().rposition(|(value, _)| is_result(value)).unwrap_or(read);
        notes.push(format!("of {all} documents number {} was read, the last with a result", read + 1));
    }
    if all == 0 {
        return Value::default();
    }
    let (value, of_it) = documents.swap_remove(read);
    notes.extend(of_it);
    value
}

/// The documents, where events that follow one another are one for each `start`: iperf3 appends to its `--logfile`. Each with
/// what had to be repaired.
fn tests_of(values: Vec<Value>) -> Vec<(Value, Option<String>)> {
    let (mut documents, mut events) = (Vec::new(), Vec::<Value>::new());
    for value in values {
        let event = value.get("event").and_then(Value::as_str);
        if (event.is_none() || event == Some("start")) && !events.is_empty() {
            documents.push(of_events(std::mem::take(&mut events)));
        }
        if event.is_some() { events.push(value) } else { documents.push((value, None)) }
    }
    if !events.is_empty() {
        documents.push(of_events(events));
    }
    documents
}

/// Events of `iperf3 --json-stream` as the document that `-J` writes.
fn of_events(values: Vec<Value>) -> (Value, Option<String>) {
    let mut whole = Map::new();
    let mut intervals = Vec::new();
    for mut event in values {
        let data = event.get_mut("data").map(Value::take).unwrap_or_default();
        match event.get("event").and_then(Value::as_str) {
            Some("interval") => intervals.push(data),
            Some(name @ ("start" | "end" | "error")) => drop(whole.insert(name.to_owned(), data)),
            _ => {}
        }
    }
    // An error says itself that the test ended early.
    let cut = !["end", "error"].iter().any(|name| whole.contains_key(*name));
    let why =
        cut.then(|| "the stream has no end event: the test ended early; its values until then were read".to_owned());
    whole.entry("start").or_insert_with(|| json!({}));
    whole.insert("intervals".to_owned(), Value::Array(intervals));
    (Value::Object(whole), why)
}

/// The documents of a text.
#[derive(Default)]
struct Scan {
    /// The text with JSON's own numbers.
    text: Vec<u8>,
    documents: Vec<core::ops::Range<usize>>,
    /// Numbers that JSON does not have.
    replaced: usize,
    /// Text outside the documents: its length, and its beginning.
    outside: usize,
    first_outside: Vec<u8>,
    /// Octets left out at the end.
    cut: usize,
}

impl Scan {
    fn tell(&self, notes: &mut Vec<String>) {
        /// Characters of foreign text that are shown.
        const SHOWN: usize = 60;
        if self.replaced > 0 {
            notes.push(format!("{} values such as NaN or Infinity count as missing", self.replaced));
        }
        if self.outside > 0 {
            let shown: String = String::from_utf8_lossy(&self.first_outside).trim().chars().take(SHOWN).collect();
            notes.push(format!("{} octets of other text were left out: '{shown}'", self.outside));
        }
        if self.cut > 0 {
            notes.push(format!(
                "the file ends within its document: {} octets after its last whole value were left out",
                self.cut
            ));
        }
    }
    fn other_text(&mut self, octet: u8) {
        if !octet.is_ascii_whitespace() || !self.first_outside.is_empty() {
            self.outside += usize::from(!octet.is_ascii_whitespace());
            if self.first_outside.len() < 240 {
                self.first_outside.push(octet);
            }
        }
    }
}

/// Whether a word outside of strings is a number that JSON does not have, as C, Python and Windows write them.
fn is_no_number(word: &[u8]) -> bool {
    let word = word.to_ascii_lowercase();
    let bare = word.strip_prefix(b"-").or_else(|| word.strip_prefix(b"+")).unwrap_or(&word);
    matches!(
        bare,
        b"nan" | b"inf" | b"infinity" | b"nan(ind)" | b"nan(snan)" | b"1.#inf" | b"1.#qnan" | b"1.#ind" | b"1.#snan"
    )
}

/// A place in a document after which it can end.
struct Good {
    at: usize,
    open: Vec<u8>,
}

/// Finds documents, which begin a line or follow another, or stand `anywhere`: an object in words begins with a key.
fn scan(text: &[u8], anywhere: bool) -> Scan {
    let mut found = Scan::default();
    let (mut at, mut may_begin) = (0, true);
    let has_key = |at: usize| text[at + 1..].iter().find(|octet| !octet.is_ascii_whitespace()) == Some(&b'"');
    while at < text.len() && found.documents.len() < DOCUMENTS_MAX {
        match text[at] {
            b'{' if may_begin || anywhere && has_key(at) => {
                at = document(text, at, &mut found);
                may_begin = true;
            }
            octet => {
                found.other_text(octet);
                may_begin = octet == b'\n' || (may_begin && octet.is_ascii_whitespace());
                at += 1;
            }
        }
    }
    found
}

/// Copies the document that begins at `at`; returns where it ends.
fn document(text: &[u8], mut at: usize, found: &mut Scan) -> usize {
    let start = found.text.len();
    let mut open: Vec<u8> = Vec::new();
    let mut good: Option<Good> = None;
    let mut good_in = at;
    while at < text.len() {
        match text[at] {
            b'"' => {
                let end = string_end(text, at);
                found.text.extend_from_slice(&text[at..end]);
                at = end;
                continue;
            }
            octet @ (b'{' | b'[') => {
                if open.len() == DEPTH_MAX {
                    break;
                }
                open.push(if octet == b'{' { b'}' } else { b']' });
                found.text.push(octet);
            }
            octet @ (b'}' | b']') => {
                if open.pop() != Some(octet) {
                    break;
                }
                found.text.push(octet);
                if open.is_empty() {
                    found.documents.push(start..found.text.len());
                    return at + 1;
                }
                if open.last() == Some(&b']') {
                    good = Some(Good { at: found.text.len(), open: open.clone() });
                    good_in = at + 1;
                }
            }
            octet if octet.is_ascii_alphanumeric() || b"+-.".contains(&octet) => {
                let is_part = |o: &u8| o.is_ascii_alphanumeric() || b"+-.#()".contains(o);
                let end = text[at..].iter().position(|o| !is_part(o)).map_or(text.len(), |n| at + n);
                let word = &text[at..end];
                if is_no_number(word) {
                    found.replaced += 1;
                    found.text.extend_from_slice(b"null");
                } else {
                    found.text.extend_from_slice(word);
                }
                at = end;
                continue;
            }
            octet => found.text.push(octet),
        }
        at += 1;
    }
    // The end is missing: back to the last whole element of a list.
    found.text.truncate(good.as_ref().map_or(start, |good| good.at));
    if let Some(Good { mut open, .. }) = good {
        open.reverse();
        found.text.extend(open);
        found.documents.push(start..found.text.len());
    }
    found.cut += text.len() - good_in;
    text.len()
}

/// The end of the string that begins at `at`.
fn string_end(text: &[u8], at: usize) -> usize {
    let mut end = at + 1;
    while end < text.len() {
        match text[end] {
            b'"' => return end + 1,
            b'\\' => end += 2,
            _ => end += 1,
        }
    }
    text.len()
}
