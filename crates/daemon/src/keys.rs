//! Keys as text and files: X25519 keys and pre-shared keys, 32 bytes in base64, one line (as WireGuard writes them).

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Bytes in a key.
pub const KEY_LEN: usize = 32;
/// No key file or secret is longer; a longer one is something else.
const KEY_FILE_MAX: u64 = 4_096;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Why a key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file does not exist.
    #[error("key file {0} does not exist: make one with `wavelane keygen --out {0}`")]
    Missing(PathBuf),
    /// The file that both gateways need does not exist.
    #[error(
        "pre-shared key file {0} does not exist: make it once with `wavelane keygen --out {0}` and copy it to the other gateway"
    )]
    MissingShared(PathBuf),
    /// Others may read the file.
    #[error("key file {path} can be read by others (mode {mode:03o}): run `chmod 600 {path}`")]
    Exposed {
        /// Which file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The file does not hold a key.
    #[error("{0} does not hold a key (44 characters of base64): make one with `wavelane keygen`")]
    Malformed(String),
    /// The file exists already.
    #[error("{0} exists already and is not overwritten: choose another name or remove it first")]
    Exists(PathBuf),
    /// Reading or writing failed.
    #[error("cannot use key file {path}: {source}; check the path and its permissions")]
    Io {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

/// Writes bytes as standard base64 with padding (RFC 4648, section 4).
pub fn to_base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0u32, |w, &b| w << 8 | u32::from(b)) << (8 * (3 - chunk.len()));
        for i in 0..4 {
            let sextet = (word >> (18 - 6 * i)) & 63;
            text.push(if i <= chunk.len() { char::from(ALPHABET[sextet as usize]) } else { '=' });
        }
    }
    text
}

/// Reads a key from base64 (RFC 4648, section 4); surrounding white space is ignored.
pub fn key_from_base64(text: &str) -> Option<[u8; KEY_LEN]> {
    // Some editors write a byte order mark.
    let digits = text.trim_start_matches('\u{feff}').trim().strip_suffix('=')?.as_bytes();
    if digits.len() != 43 {
        return None;
    }
    let mut key = [0; KEY_LEN];
    let (mut word, mut bits, mut at) = (0u32, 0, 0);
    for digit in digits {
        let sextet = ALPHABET.iter().position(|a| a == digit)?;
        word = word << 6 | sextet as u32;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            key[at] = (word >> bits) as u8;
            at += 1;
        }
    }
    // 43 digits carry 258 bits; the two spare ones must be zero, so that a key has one spelling.
    (word & 3 == 0).then_some(key)
}

/// Reads a private or pre-shared key; refuses a file that others may read.
pub fn read_key(path: &Path) -> Result<[u8; KEY_LEN], KeyError> {
    key_from_base64(&read_private(path)?).ok_or_else(|| KeyError::Malformed(path.display().to_string()))
}

/// Reads a short text; refuses a file that others may read.
pub(crate) fn read_private(path: &Path) -> Result<String, KeyError> {
    let io = |source: std::io::Error| match source.kind() {
        std::io::ErrorKind::NotFound => KeyError::Missing(path.into()),
        _ => KeyError::Io { path: path.into(), source },
    };
    // A pipe must not keep us waiting for its writer.
    let file = OpenOptions::new().read(true).custom_flags(wavelane_host::files::NONBLOCKING).open(path).map_err(io)?;
    let about = file.metadata().map_err(io)?;
    if !about.is_file() {
        return Err(io(std::io::Error::new(std::io::ErrorKind::InvalidData, "it is no plain file")));
    }
    let mode = about.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(KeyError::Exposed { path: path.into(), mode });
    }
    let mut text = String::new();
    file.take(KEY_FILE_MAX).read_to_string(&mut text).map_err(io)?;
    Ok(text)
}

/// Writes a key to a new file that only its owner may read.
pub fn write_key(path: &Path, key: &[u8; KEY_LEN]) -> Result<(), KeyError> {
    let io = |source: std::io::Error| match source.kind() {
        std::io::ErrorKind::AlreadyExists => KeyError::Exists(path.into()),
        _ => KeyError::Io { path: path.into(), source },
    };
    write_new(path, |file| writeln!(file, "{}", to_base64(key))).map_err(io)
}

/// Makes a file as a whole or not at all: what a full disk left of a key would be in the way of the next try.
fn write_new(path: &Path, fill: impl FnOnce(&mut File) -> std::io::Result<()>) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    // Some file systems find out only here that there is no room.
    let done = fill(&mut file).and_then(|()| file.sync_all());
    if done.is_err() {
        let _ = std::fs::remove_file(path);
    }
    done
}

/// A fresh private key from the operating system's entropy.
pub fn generate() -> Result<[u8; KEY_LEN], KeyError> {
    let path = Path::new("/dev/urandom");
    let mut key = [0; KEY_LEN];
    let io = |source| KeyError::Io { path: path.into(), source };
    File::open(path).and_then(|mut f| f.read_exact(&mut key)).map_err(io)?;
    Ok(key)
}

/// The public key that belongs to a private key (X25519, RFC 7748).
pub fn public_key(private: &[u8; KEY_LEN]) -> [u8; KEY_LEN] {
    use snow::resolvers::{CryptoResolver, DefaultResolver};
    let mut dh =
        DefaultResolver.resolve_dh(&snow::params::DHChoice::Curve25519).expect("snow is built with curve25519");
    dh.set(private);
    let mut public = [0; KEY_LEN];
    public.copy_from_slice(dh.pubkey());
    public
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use std::io::ErrorKind;

    #[test]
    fn base64_matches_rfc_4648_and_round_trips_keys() {
        for (plain, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            assert_eq!(to_base64(plain.as_bytes()), text);
        }
        let key = generate().unwrap();
        assert_eq!(key_from_base64(&format!(" {}\n", to_base64(&key))), Some(key));
        assert_eq!(key_from_base64(&format!("\u{feff}{}\r\n", to_base64(&key))), Some(key));
        assert_eq!(key_from_base64(&to_base64(&key[..31])), None);
        assert_eq!(key_from_base64("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAB="), None, "spare bits set");
        assert_eq!(key_from_base64("!AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="), None);
    }

    #[test]
    fn the_public_key_is_that_of_rfc_7748_section_6_1() {
        let hex =
            |s: &str| -> [u8; 32] { std::array::from_fn(|i| u8::from_str_radix(&s[2 * i..2 * i + 2], 16).unwrap()) };
        let bob = hex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb");
        assert_eq!(public_key(&bob), hex("de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"));
    }

    #[test]
    fn a_key_file_must_exist_be_private_and_hold_a_key() {
        let dir = std::env::temp_dir().join(format!("wavelane-keys-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("key");
        assert!(matches!(read_key(&path), Err(KeyError::Missing(_))));
        write_key(&path, &[7; 32]).unwrap();
        assert_eq!(read_key(&path).unwrap(), [7; 32]);
        assert!(matches!(write_key(&path, &[8; 32]), Err(KeyError::Exists(_))));
        assert_eq!(read_key(&path).unwrap(), [7; 32], "it is not touched");
        let full = dir.join("full");
        assert!(write_new(&full, |file| file.write_all(b"half").and(Err(ErrorKind::StorageFull.into()))).is_err());
        assert!(!full.exists(), "nothing is left of it");
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let exposed = read_key(&path).unwrap_err().to_string();
        assert!(exposed.contains("chmod 600") && !exposed.contains('\n'), "{exposed}");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let pipe = dir.join("pipe");
        assert!(std::process::Command::new("mkfifo").arg("-m600").arg(&pipe).status().unwrap().success());
        assert!(read_key(&pipe).unwrap_err().to_string().contains("no plain file"));
        std::fs::write(&path, "hello").unwrap();
        assert!(matches!(read_key(&path), Err(KeyError::Malformed(_))));
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
