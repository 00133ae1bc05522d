//! Text of others (files, peers, records) as it is shown: it moves no cursor, turns no line around, and has an end.
//!
//! This is the one place where characters are judged; logs, terminals, pages and error messages use it.

use std::borrow::Cow;
use std::fmt::Write;
use std::path::Path;

/// Whether a character does something else than stand there: controls (Unicode's category Cc), directional marks and overrides,
/// separators of lines, joiners and other invisible characters (of Cf, Zl and Zp), and tags.
pub fn moves(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Text of several lines: everything that [`moves`] but line feeds and tabs is escaped, and what is longer than `most`
/// characters is cut off, which is said.
pub fn lines(text: &str, most: usize) -> Cow<'_, str> {
    escaped(text, most, |c| moves(c) && c != '\n' && c != '\t')
}

/// The same as one line.
pub fn line(text: &str, most: usize) -> Cow<'_, str> {
    escaped(text, most, moves)
}

/// Characters shown of a path: no file system takes a longer one.
const PATH_MAX: usize = 4_096;

/// A path in a message: whoever names a file writes no line of its own.
pub trait ShownPath {
    /// As one line.
    fn shown(&self) -> String;
}

impl ShownPath for Path {
    fn shown(&self) -> String {
        line(&self.to_string_lossy(), PATH_MAX).into_owned()
    }
}

fn escaped(text: &str, most: usize, bad: impl Fn(char) -> bool) -> Cow<'_, str> {
    let end = text.char_indices().nth(most).map(|(at, _)| at);
    if end.is_none() && !text.chars().any(&bad) {
        return text.into();
    }
    let mut out = String::new();
    for c in text[..end.unwrap_or(text.len())].chars() {
        if bad(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    if let Some(end) = end {
        let _ = write!(out, " ... ({} more octets)", text.len() - end);
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_moves_a_cursor_or_turns_a_line_is_left() {
        assert_eq!(lines("a\u{1b}[2Jb\tc\nd\u{9b}e\r", 99), "a\\u{1b}[2Jb\tc\nd\\u{9b}e\\r");
        assert_eq!(line("a\nb\tc", 99), "a\\nb\\tc");
        for c in ['\u{202e}', '\u{2066}', '\u{200f}', '\u{61c}', '\u{2028}', '\u{feff}', '\u{e0041}', '\0', '\u{7f}'] {
            assert_eq!(lines(&format!("x{c}y"), 99), format!("x{}y", c.escape_default()), "{c:?}");
        }
        for text in ["", "Ω µ\n", "日本語 שלום é", "a\tb"] {
            assert!(matches!(lines(text, 99), Cow::Borrowed(_)), "{text}");
        }
    }

    #[test]
    fn the_name_of_a_file_is_one_line() {
        assert_eq!(
            Path::new("a\nwavelane: all is well\u{1b}[2J.pcap").shown(),
            "a\\nwavelane: all is well\\u{1b}[2J.pcap"
        );
    }

    #[test]
    fn long_text_is_cut_and_says_so() {
        assert_eq!(line(&"é".repeat(10), 10), "é".repeat(10));
        assert_eq!(line(&"é".repeat(11), 10), "é".repeat(10) + " ... (2 more octets)");
        assert!(line(&"\0".repeat(1 << 20), 100).len() < 1_000);
    }
}
