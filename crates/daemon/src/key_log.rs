//! The file that data keys are appended to, when the operator wants to open captures.

use crate::config::Config;
use crate::load::is_same;
use crate::start::StartError;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use wavelane_gateway::LoggedKey;
use wavelane_host::files;

/// An open key log.
pub(crate) struct KeyLog {
    file: File,
    path: PathBuf,
    failed: bool,
}

impl KeyLog {
    /// Nothing must be appended to what the gateway writes otherwise, even if that is not there yet.
    pub(crate) fn check(appended: &[&Path], config: &Config) -> Result<(), StartError> {
        appended.iter().enumerate().try_for_each(|(at, path)| {
            let twice = || appended[..at].iter().any(|other| is_same(other, path)).then_some("--key-log");
            let Some(key) = config.own_file(path).or_else(twice) else { return Ok(()) };
            let source = io::Error::other(format!("this gateway has it for something else ({key})"));
            Err(StartError::KeyLog { path: path.to_path_buf(), source })
        })
    }
    /// Opens it, readable for its owner alone if it is made here. Keys are appended.
    pub(crate) fn open(path: &Path) -> Result<Self, StartError> {
        let failed = |source| StartError::KeyLog { path: path.to_owned(), source };
        let file = files::append(path).map_err(failed)?;
        let about = file.metadata().map_err(failed)?;
        if about.mode() & 0o077 != 0 {
            let why = format!("others may read it (mode {:03o}); run `chmod 600` on it", about.mode() & 0o777);
            return Err(failed(io::Error::other(why)));
        }
        // What a line begins with: the receiver's index.
        let mut start = [0; 9];
        let read = File::open(path).and_then(|file| file.read_at(&mut start, 0)).map_err(failed)?;
        let is_ours = |(at, byte): (usize, &u8)| if at == 8 { *byte == b' ' } else { byte.is_ascii_hexdigit() };
        if !start[..read].iter().enumerate().all(is_ours) {
            let why = "it holds something else than logged keys: name another path";
            return Err(failed(io::Error::new(io::ErrorKind::AlreadyExists, why)));
        }
        Ok(Self { file, path: path.to_owned(), failed: false })
    }
    /// The warning at the start.
    pub(crate) fn remark(&self) -> String {
        format!("warning: data keys go to {}: who can read that file can decrypt the traffic", self.path.display())
    }
    /// Appends a key. Only the first of failures in a row is returned: the disk may be full for long.
    pub(crate) fn append(&mut self, key: &LoggedKey) -> Option<String> {
        // One write per line, for several gateways may append to one file. What a full disk cut off is ended first.
        let end = if self.failed { "\n" } else { "" };
        let wrote: io::Result<()> = self.file.write_all(format!("{end}{key}\n").as_bytes());
        let first = !core::mem::replace(&mut self.failed, wrote.is_err());
        let why = wrote.err().filter(|_| first)?;
        Some(format!("cannot append to the key log {}: {why}; traffic goes on", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use wavelane_wire::datagram::Suite;

    #[test]
    fn a_key_log_is_a_file_of_the_owners_alone() {
        let place = std::env::temp_dir().join(format!("wavelane-keylog-{}", std::process::id()));
        std::fs::create_dir_all(&place).unwrap();
        let path = place.join("keys");
        let mut log = KeyLog::open(&path).unwrap();
        let key = LoggedKey { receiver: 7, suite: Suite::Aes256Gcm, key: [9; 32] };
        assert_eq!(log.append(&key), None);
        // A full disk cuts a line off.
        std::fs::write(&path, "00000007 aes-256-g").unwrap();
        log.failed = true;
        assert_eq!(log.append(&key), None);
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().nth(1), Some(key.to_string().as_str()), "{text}");
        drop(KeyLog::open(&path).unwrap());
        for other in ["L13drvVlAxBLzAfv/pVMBde6DeqIT6euqGRJHCALlAE=\n", "1764412345\n", "\n"] {
            std::fs::write(&path, other).unwrap();
            let error = KeyLog::open(&path).err().unwrap().to_string();
            assert!(error.contains("something else than logged keys"), "{error}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), other);
        }
        std::fs::write(&path, "").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let error = KeyLog::open(&path).err().unwrap().to_string();
        assert!(error.contains("mode 644") && error.contains("chmod 600"), "{error}");
        assert!(KeyLog::open(Path::new("/dev/null")).is_err());
        std::fs::remove_dir_all(&place).unwrap();
    }

    #[test]
    fn a_key_log_is_none_of_the_gateways_own_files_even_before_they_are_there() {
        let place = std::env::temp_dir().join(format!("wavelane-keylog-own-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&place);
        std::fs::create_dir_all(&place).unwrap();
        crate::keys::write_key(&place.join("a.key"), &[1; 32]).unwrap();
        let key = crate::keys::to_base64(&[9; 32]);
        let text = format!(
            "[gateway]\nname = \"a\"\nkey = \"a.key\"\nstate = \"epoch\"\ncontrol = \"a.sock\"\n[[peer]]\nname = \"b\"\npublic_key = \"{key}\"\n"
        );
        let config = Config::parse(&text, "x", &place).unwrap();
        std::os::unix::fs::symlink(&place, place.join("link")).unwrap();
        for (name, cause) in [
            ("epoch", "gateway.state"),
            ("epoch.peers", "gateway.state"),
            ("epoch-lock", "gateway.state"),
            ("link/epoch-lock", "gateway.state"),
            ("a.sock", "gateway.control"),
            ("a.key", "a file that it reads"),
        ] {
            let why = KeyLog::check(&[&place.join(name)], &config).err().map(|why| why.to_string());
            assert!(why.as_ref().is_some_and(|why| why.contains(cause)), "{name}: {why:?}");
            assert!(name == "a.key" || !place.join(name).exists());
        }
        let [keys, capture, same] = ["keys", "capture", "link/keys"].map(|name| place.join(name));
        assert!(KeyLog::check(&[&keys, &capture], &config).is_ok());
        let why = KeyLog::check(&[&keys, &same], &config).unwrap_err().to_string();
        assert!(why.contains("for something else (--key-log)") && !keys.exists(), "{why}");
        std::fs::remove_dir_all(&place).unwrap();
    }
}
