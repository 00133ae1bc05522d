//! Lines of a key log: keys that decrypt captured data datagrams, as TLS key logs do for TLS.
//!
//! ```text
//! receiver 8 hex digits | space | suite | space | key 64 hex digits
//! ```
//!
//! Empty lines and lines that begin with `#` are ignored.

use crate::datagram::Suite;
use core::fmt;
use core::str::FromStr;

/// The words for the ciphers, as RFC 5116 and RFC 8439 write them.
const SUITES: [(Suite, &str); 2] = [(Suite::ChaCha20Poly1305, "chacha20-poly1305"), (Suite::Aes256Gcm, "aes-256-gcm")];

/// What opens the data datagrams of one direction of a session.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct LoggedKey {
    /// The `receiver` in their headers.
    pub receiver: u32,
    /// The cipher.
    pub suite: Suite,
    /// The key.
    pub key: [u8; 32],
}

impl fmt::Display for LoggedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let suite = SUITES.iter().find(|(suite, _)| *suite == self.suite).map_or("", |(_, word)| word);
        write!(f, "{:08x} {suite} ", self.receiver)?;
        self.key.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A secret is not written by accident.
impl fmt::Debug for LoggedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoggedKey").field("receiver", &self.receiver).finish_non_exhaustive()
    }
}

/// Why a line is not a key log entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected `RECEIVER SUITE KEY`: 8 hex digits, chacha20-poly1305 or aes-256-gcm, 64 hex digits")]
pub struct NotAKey;

impl FromStr for LoggedKey {
    type Err = NotAKey;
    fn from_str(line: &str) -> Result<Self, NotAKey> {
        let words: Vec<&str> = line.split_ascii_whitespace().take(4).collect();
        let [receiver, suite, key] = words[..] else { return Err(NotAKey) };
        let receiver = u32::from_be_bytes(hex(receiver)?);
        let suite = SUITES.iter().find(|(_, word)| *word == suite).ok_or(NotAKey)?.0;
        Ok(Self { receiver, suite, key: hex(key)? })
    }
}

fn hex<const N: usize>(text: &str) -> Result<[u8; N], NotAKey> {
    let mut out = [0; N];
    if text.len() != 2 * N || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(NotAKey);
    }
    for (byte, at) in out.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(&text[at..at + 2], 16).map_err(|_| NotAKey)?;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_log_line_has_its_documented_form() {
        let key = LoggedKey { receiver: 0x1a2b, suite: Suite::Aes256Gcm, key: core::array::from_fn(|i| i as u8) };
        let line = "00001a2b aes-256-gcm 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
        assert_eq!(key.to_string(), line);
        assert_eq!(line.parse(), Ok(key));
        assert!(!format!("{key:?}").contains("0102"));
    }

    #[test]
    fn other_lines_are_refused() {
        let key = "00".repeat(32);
        let wrong = [
            String::new(),
            format!("0000000 aes-256-gcm {key}"),
            format!("00000000 aes-128-gcm {key}"),
            format!("00000000 aes-256-gcm {key}00"),
            format!("00000000 aes-256-gcm {key} more"),
            format!("+0000000 aes-256-gcm {key}"),
            format!("00000000 aes-256-gcm é{}", &key[2..]),
        ];
        for line in wrong {
            assert_eq!(line.parse::<LoggedKey>(), Err(NotAKey), "{line}");
        }
    }
}
