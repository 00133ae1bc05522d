//! Rust text without comments and literals: enough of the lexer to search for words.

/// `text` with comments and the contents of string and character literals blanked out; lines keep their numbers.
///
/// Follows the Rust Reference, "Comments" (nested block comments) and "Tokens" (raw strings, lifetimes).
pub(crate) fn strip(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut i = 0;
    while i < bytes.len() {
        let end = match bytes[i] {
            b'/' if bytes.get(i + 1) == Some(&b'/') => line_end(bytes, i),
            b'/' if bytes.get(i + 1) == Some(&b'*') => block_end(bytes, i),
            b'r' if !follows_word(bytes, i) => raw_end(bytes, i).unwrap_or(i),
            b'b' | b'c' if bytes.get(i + 1) == Some(&b'r') && !follows_word(bytes, i) => {
                raw_end(bytes, i + 1).unwrap_or(i)
            }
            b'"' => quoted_end(bytes, i, b'"'),
            b'\'' => character_end(bytes, i).unwrap_or(i),
            _ => i,
        };
        for byte in &mut out[i..end] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        i = end.max(i + 1);
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

fn follows_word(bytes: &[u8], i: usize) -> bool {
    i > 0 && is_word(bytes[i - 1])
}

fn line_end(bytes: &[u8], i: usize) -> usize {
    bytes[i..].iter().position(|&b| b == b'\n').map_or(bytes.len(), |n| i + n)
}

fn block_end(bytes: &[u8], mut i: usize) -> usize {
    let mut depth = 0;
    while i < bytes.len() {
        match (bytes[i], bytes.get(i + 1)) {
            (b'/', Some(b'*')) => {
                depth += 1;
                i += 2;
            }
            (b'*', Some(b'/')) => {
                depth -= 1;
                i += 2;
                if depth == 0 {
                    return i;
                }
            }
            _ => i += 1,
        }
    }
    bytes.len()
}

/// The end of the raw string whose `r` is at `i`, if there is one.
fn raw_end(bytes: &[u8], i: usize) -> Option<usize> {
    let hashes = bytes[i + 1..].iter().take_while(|&&b| b == b'#').count();
    let open = i + 1 + hashes;
    if bytes.get(open) != Some(&b'"') {
        return None;
    }
    let mut close = vec![b'"'];
    close.resize(hashes + 1, b'#');
    let rest = &bytes[open + 1..];
    let at = rest.windows(close.len()).position(|w| w == close.as_slice());
    Some(at.map_or(bytes.len(), |n| open + 1 + n + close.len()))
}

fn quoted_end(bytes: &[u8], open: usize, quote: u8) -> usize {
    let mut i = open + 1;
    while i < bytes.len() {
        match bytes[i] {
            b'\\' => i += 2,
            b if b == quote => return i + 1,
            _ => i += 1,
        }
    }
    bytes.len()
}

/// The end of the character literal at `i`; `None` for a lifetime or label.
fn character_end(bytes: &[u8], i: usize) -> Option<usize> {
    match bytes.get(i + 1)? {
        b'\\' => Some(quoted_end(bytes, i, b'\'')),
        first => {
            let width = match first {
                0..0x80 => 1,
                0x80..0xe0 => 2,
                0xe0..0xf0 => 3,
                _ => 4,
            };
            (bytes.get(i + 1 + width) == Some(&b'\'')).then_some(i + 2 + width)
        }
    }
}

/// Lines (from 1) on which `word`, such as `HashMap`, `std::fs` or the method `.ln`, stands as a whole word in stripped code.
pub(crate) fn lines_with<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.lines().enumerate().filter(move |(_, line)| contains_word(line, word)).map(|(i, _)| i + 1)
}

fn contains_word(line: &str, word: &str) -> bool {
    let bytes = line.as_bytes();
    line.match_indices(word).any(|(at, _)| {
        let after = bytes.get(at + word.len());
        (word.starts_with('.') || !follows_word(bytes, at)) && !after.is_some_and(|&b| is_word(b))
    })
}

/// The offset just past the brace that closes the first one at or after `from`.
pub(crate) fn block_after(code: &str, from: usize) -> Option<(usize, usize)> {
    let open = from + code.get(from..)?.find('{')?;
    let mut depth = 0usize;
    for (i, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' => {
                depth -= 1;
                if depth == 0 {
                    return Some((open, i + 1));
                }
            }
            _ => {}
        }
    }
    None
}

/// The line (from 1) of a byte offset.
pub(crate) fn line_at(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset.min(text.len())].iter().filter(|&&b| b == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked_and_code_is_kept() {
        for (text, kept) in [
            ("a // HashMap\nb", "a b"),
            ("a /* x /* y */ HashMap */ b", "a b"),
            ("a \"x \\\" HashMap\" b", "a b"),
            ("r#\"HashMap \"# b", "b"),
            ("br\"HashMap\" b", "b"),
            ("'\"' HashMap '\\'' b", "HashMap b"),
            ("fn f<'a>(x: &'a str) {}", "fn f<'a>(x: &'a str) {}"),
            ("'ä' b", "b"),
            ("for_r\"x\"", "for_r"),
            ("r#type = 1", "r#type = 1"),
        ] {
            let stripped = strip(text);
            assert_eq!(stripped.split_whitespace().collect::<Vec<_>>().join(" "), kept, "{text}");
            assert_eq!(stripped.len(), text.len(), "offsets survive");
        }
        assert_eq!(strip("\"a\nb\"\nc").lines().count(), 3, "line numbers survive");
    }

    #[test]
    fn words_are_whole_words() {
        assert!(contains_word("use std::collections::HashMap;", "HashMap"));
        assert!(contains_word("HashMap<u8, u8>", "HashMap"));
        assert!(!contains_word("MyHashMapper", "HashMap"));
        assert!(!contains_word("stdx::fs", "std::fs") && !contains_word("std::fscanf", "std::fs"));
        assert!(contains_word("std::fs::read", "std::fs"));
    }
}
