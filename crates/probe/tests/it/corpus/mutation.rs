//! Inputs made from the corpus by chance. Captures are changed packet by packet and result files value by value, so that what is
//! read does not end at the first octet.

use super::machine::PIECE;
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::path::PathBuf;
use wavelane_base::Chance;

/// Changes per input, and pieces of an input of probe packets, at the most.
const CHANGES_MAX: u64 = 12;
const PIECES_MAX: u64 = 12;
/// Octets of one piece of probe packets changed at the most.
const PIECE_CHANGES_MAX: u64 = 6;
/// What of a packet is changed rather than the rest: its headers and options.
const HEADERS: u64 = 110;
/// Octets of a capture or a result file at the most, so that repeated pieces do not add up.
const INPUT_MAX: usize = 64 << 10;

fn any<'a, T>(chance: &mut Chance, of: &'a [T]) -> &'a T {
    &of[chance.below(of.len() as u64) as usize]
}

fn one_in(chance: &mut Chance, n: u64) -> bool {
    chance.below(n) == 0
}

/// Another octet in place of one.
fn octet(chance: &mut Chance, old: u8) -> u8 {
    match chance.below(4) {
        0 => chance.below(256) as u8,
        1 => old ^ 1 << chance.below(8),
        2 => old.wrapping_add(*any(chance, &[1, 0xff])),
        _ => *any(chance, &[0, 1, 0x7f, 0x80, 0xff]),
    }
}

/// Changes one octet, or four that may be a number, at `at` or behind it.
fn change(chance: &mut Chance, bytes: &mut [u8], at: usize) {
    let Some(rest) = bytes.get_mut(at..) else { return };
    match rest.first_chunk_mut::<4>() {
        Some(word) if one_in(chance, 3) => {
            let old = u32::from_be_bytes(*word);
            let near = *any(chance, &[1, 0xffff_ffff, 1_460, 0x1_0000, 0x8000_0000]);
            let new =
                *any(chance, &[0, 1, 0x7fff_ffff, 0x8000_0000, u32::MAX, old.swap_bytes(), old.wrapping_add(near)]);
            *word = new.to_be_bytes();
        }
        _ => {
            if let Some(first) = rest.first_mut() {
                *first = octet(chance, *first);
            }
        }
    }
}

fn unpacked(file: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    match file {
        [0x1F, 0x8B, ..] => MultiGzDecoder::new(file).read_to_end(&mut plain),
        [0x28, 0xB5, 0x2F, 0xFD, ..] => {
            ruzstd::decoding::StreamingDecoder::new(file).expect("a frame").read_to_end(&mut plain)
        }
        _ => (&file[..]).read_to_end(&mut plain),
    }
    .expect("the corpus is whole");
    plain
}

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::fast());
    out.write_all(plain).expect("memory");
    out.finish().expect("memory")
}

/// Packs a file or not; then, at times, damages what came of it.
fn packed(chance: &mut Chance, mut file: Vec<u8>, zstd: bool) -> Vec<u8> {
    file.truncate(INPUT_MAX);
    let mut file = match chance.below(6) {
        0 => gzip(&file),
        1 if zstd => ruzstd::encoding::compress_to_vec(&file[..], ruzstd::encoding::CompressionLevel::Fastest),
        _ => file,
    };
    if one_in(chance, 6) {
        for _ in 0..=chance.below(3) {
            let at = chance.below(file.len() as u64) as usize;
            change(chance, &mut file, at);
        }
    }
    if one_in(chance, 8) {
        file.truncate(chance.below(file.len() as u64 + 1) as usize);
    }
    file
}

/// A capture as its blocks, or its header and its packets.
struct Pieces {
    /// What stands before a packet's own octets.
    head: usize,
    pieces: Vec<Vec<u8>>,
}

impl Pieces {
    fn of(file: &[u8]) -> Option<Self> {
        let word = |at: usize, big: bool| {
            let word: [u8; 4] = file.get(at..at + 4)?.try_into().ok()?;
            Some(if big { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) } as usize)
        };
        let next_generation = file.starts_with(&[0x0A, 0x0D, 0x0D, 0x0A]);
        let big = if next_generation { file.get(8) == Some(&0x1A) } else { file.first() == Some(&0xA1) };
        let pcap = word(0, big).is_some_and(|magic| matches!(magic, 0xA1B2_C3D4 | 0xA1B2_3C4D));
        let (mut pieces, mut at) = (Vec::new(), 0);
        if pcap {
            pieces.push(file.get(..24)?.to_vec());
            at = 24;
        }
        while (pcap || next_generation) && at < file.len() {
            let length = if pcap { word(at + 8, big)? + 16 } else { word(at + 4, big)? };
            pieces.push(file.get(at..at + length)?.to_vec());
            at += length;
        }
        (!pieces.is_empty()).then_some(Self { head: if pcap { 16 } else { 28 }, pieces })
    }
}

/// Captures to be mutated.
pub(crate) struct Captures(Vec<Pieces>);

impl Captures {
    pub(crate) fn new(corpus: Vec<(PathBuf, Vec<u8>)>) -> Self {
        let captures: Vec<_> = corpus.iter().filter_map(|(_, file)| Pieces::of(&unpacked(file))).collect();
        assert!(captures.len() >= 4, "of the corpus only {} are captures", captures.len());
        Self(captures)
    }

    pub(crate) fn make(&self, chance: &mut Chance) -> Vec<u8> {
        let Pieces { head, pieces } = any(chance, &self.0);
        let mut pieces = pieces.clone();
        for _ in 0..=chance.below(CHANGES_MAX) {
            let at = chance.below(pieces.len() as u64) as usize;
            match chance.below(16) {
                0 if pieces.len() > 1 => drop(pieces.remove(at)),
                1 => pieces.insert(at, pieces[at].clone()),
                2 => {
                    let other = chance.below(pieces.len() as u64) as usize;
                    pieces.swap(at, other);
                }
                // Of another file: often of another format, too.
                3 => {
                    let other = any(chance, &self.0);
                    pieces.insert(at, any(chance, &other.pieces).clone());
                }
                // All in another order, a bit at a time.
                4 => (1..pieces.len().saturating_sub(1)).for_each(|i| {
                    if one_in(chance, 3) {
                        pieces.swap(i, i + 1);
                    }
                }),
                // The same change to all packets: another port, another flag, another length.
                5 => {
                    let within = *head + chance.below(HEADERS) as usize;
                    let value = chance.below(256) as u8;
                    pieces.iter_mut().filter_map(|piece| piece.get_mut(within)).for_each(|octet| *octet = value);
                }
                6 => {
                    let piece = &mut pieces[at];
                    let within = chance.below(piece.len() as u64) as usize;
                    change(chance, piece, within);
                }
                _ => {
                    let within = *head + chance.below(HEADERS) as usize;
                    change(chance, &mut pieces[at], within);
                }
            }
        }
        packed(chance, pieces.concat(), true)
    }
}

/// Result files of other tools to be mutated.
pub(crate) struct Results(Vec<Value>);

impl Results {
    pub(crate) fn new(corpus: Vec<(PathBuf, Vec<u8>)>) -> Self {
        let results: Vec<_> =
            corpus.iter().filter_map(|(_, file)| serde_json::from_slice(&unpacked(file)).ok()).collect();
        assert!(results.len() >= 4, "of the corpus only {} are result files", results.len());
        Self(results)
    }

    pub(crate) fn make(&self, chance: &mut Chance) -> Vec<u8> {
        let mut file = any(chance, &self.0).clone();
        for _ in 0..=chance.below(CHANGES_MAX) {
            self.disturb(chance, &mut file);
        }
        let mut text = serde_json::to_vec(&file).expect("JSON");
        // What JSON says is not all that a file may hold: numbers of any length, texts of any octets.
        if one_in(chance, 4) {
            let at = chance.below(text.len() as u64) as usize;
            let words: [&[u8]; 6] = [b"1e400", b"-0", b"\xff", b"\"\\ud800\"", b"[[[[[[[[", b"99999999999999999999999"];
            let word = *any(chance, &words);
            text.splice(at..at, word.iter().copied());
        }
        packed(chance, text, false)
    }

    /// Changes a value somewhere within `value`.
    fn disturb(&self, chance: &mut Chance, value: &mut Value) {
        let here = one_in(chance, 6);
        match value {
            Value::Array(items) if !items.is_empty() => {
                let at = chance.below(items.len() as u64) as usize;
                match chance.below(5) {
                    _ if !here => self.disturb(chance, &mut items[at]),
                    0 => drop(items.remove(at)),
                    1 => items.insert(at, items[at].clone()),
                    2 => items.truncate(at),
                    3 => items.push(self.odd(chance)),
                    _ => *value = self.odd(chance),
                }
            }
            Value::Object(entries) if !entries.is_empty() => {
                let key = entries.keys().nth(chance.below(entries.len() as u64) as usize).expect("one of them").clone();
                match chance.below(4) {
                    _ if !here => self.disturb(chance, entries.get_mut(&key).expect("it is there")),
                    0 => drop(entries.remove(&key)),
                    1 => drop(entries.insert(key, self.odd(chance))),
                    2 => {
                        let moved = entries.remove(&key).expect("it is there");
                        let names =
                            ["results", "x_values", "metadata", "intervals", "start", "round_trips", "end", "", "T0"];
                        entries.insert((*any(chance, &names)).to_owned(), moved);
                    }
                    _ => *value = self.odd(chance),
                }
            }
            _ => *value = self.odd(chance),
        }
    }

    /// A value that stands nowhere in such a file, or stands elsewhere.
    fn odd(&self, chance: &mut Chance) -> Value {
        let numbers = [0.0, -1.0, 1e308, -1e308, 1e-308, 0.5, 1e18];
        match chance.below(10) {
            0 => Value::Null,
            1 => json!(any(chance, &numbers)),
            2 => json!(any(chance, &[0, 1, 3, 4, u64::MAX, 1 << 63, 1 << 53])),
            3 => json!(any(
                chance,
                &["", "true", "true_up", "2026-13-45T99:99:99Z", "1970-01-01T00:00:00.Z", "\u{0}", "é"]
            )),
            4 => json!([]),
            5 => json!({}),
            6 => json!([null, 1, "x", [], {}]),
            7 => json!(chance.below(2) == 0),
            8 => any(chance, &self.0).clone(),
            _ => json!(-(chance.below(1 << 40) as i64)),
        }
    }
}

/// Pieces of the corpus of probe packets, put together and changed.
pub(crate) fn probe_packets(chance: &mut Chance, corpus: &[Vec<u8>]) -> Vec<u8> {
    let mut input = Vec::new();
    for _ in 0..=chance.below(PIECES_MAX) {
        let pieces: Vec<&[u8]> = any(chance, corpus).chunks(PIECE).collect();
        let mut piece = any(chance, &pieces).to_vec();
        for _ in 0..chance.below(PIECE_CHANGES_MAX) {
            let at = chance.below(piece.len() as u64) as usize;
            piece[at] = octet(chance, piece[at]);
        }
        input.extend(piece);
    }
    input
}
