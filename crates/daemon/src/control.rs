//! The control socket: each connection gets one status document.

use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use wavelane_host::files;

/// A socket file that only our user and root may open; removed when dropped.
#[derive(Debug)]
pub(crate) struct Control {
    pub(crate) listener: UnixListener,
    path: PathBuf,
    /// Device and number of the file: at the end another may lie there.
    made: Option<(u64, u64)>,
}

/// Why it cannot be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ControlError {
    #[error("another wavelaned answers at {0}: stop it, or give this one another `control` path")]
    Busy(PathBuf),
    #[error("{0} is there and is no socket of ours, so it is left alone: choose another `control` path, or remove it")]
    Foreign(PathBuf),
    #[error("cannot make the control socket {path}: {source}; choose another `control` path")]
    Io { path: PathBuf, source: io::Error },
}

impl Control {
    /// Makes the socket; what a daemon that was killed left is replaced.
    pub(crate) fn bind(path: &Path) -> Result<Self, ControlError> {
        let io = |source| ControlError::Io { path: path.into(), source };
        let listener = match files::listen_privately(path) {
            Err(e) if e.kind() == ErrorKind::AddrInUse && !files::is_own(path, FileTypeExt::is_socket) => {
                return Err(ControlError::Foreign(path.into()));
            }
            Err(e) if e.kind() == ErrorKind::AddrInUse => match UnixStream::connect(path) {
                Err(e) if e.kind() == ErrorKind::ConnectionRefused => {
                    std::fs::remove_file(path).map_err(io)?;
                    files::listen_privately(path).map_err(io)?
                }
                _ => return Err(ControlError::Busy(path.into())),
            },
            other => other.map_err(io)?,
        };
        listener.set_nonblocking(true).map_err(io)?;
        Ok(Self { listener, path: path.into(), made: identity(path) })
    }
    /// Answers every waiting client. One that is too slow for its socket buffer gets a truncated document; we do not wait.
    pub(crate) fn answer(&self, mut document: impl FnMut() -> String) {
        while let Ok((mut stream, _)) = self.listener.accept() {
            if stream.set_nonblocking(true).is_ok() {
                let _ = stream.write_all(document().as_bytes());
            }
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        if self.made.is_some() && self.made == identity(&self.path) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path).ok().map(|about| (about.dev(), about.ino()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use std::io::Read;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn nothing_but_a_socket_of_ours_is_replaced_or_removed() {
        let dir = std::env::temp_dir().join(format!("wavelane-control-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        let (key, link, path) = (dir.join("a.key"), dir.join("link"), dir.join("a.sock"));
        std::fs::write(&key, "secret").unwrap();
        symlink(&key, &link).unwrap();
        for foreign in [&key, &link, &dir] {
            assert!(matches!(Control::bind(foreign), Err(ControlError::Foreign(_))), "{}", foreign.display());
        }
        let control = Control::bind(&path).unwrap();
        std::fs::rename(&key, &path).unwrap();
        drop(control);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "secret", "it is not the socket that was made");
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_control_socket_of_a_dead_daemon_is_replaced() {
        let path = std::env::temp_dir().join(format!("wavelane-control-{}.sock", std::process::id()));
        drop(UnixListener::bind(&path).unwrap());
        let control = Control::bind(&path).unwrap();
        assert!(matches!(Control::bind(&path), Err(ControlError::Busy(_))));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let mut client = UnixStream::connect(&path).unwrap();
        control.answer(|| "{}".into());
        let mut text = String::new();
        client.read_to_string(&mut text).unwrap();
        assert_eq!(text, "{}");
        drop(control);
        assert!(!path.exists());
    }
}
