//! The control socket: each connection gets one status document.

use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// A socket file that only our user and root may open; removed when dropped.
#[derive(Debug)]
pub(crate) struct Control {
    pub(crate) listener: UnixListener,
    path: PathBuf,
}

/// Why it cannot be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ControlError {
    #[error("another wavelaned answers at {0}: stop it, or give this one another `control` path")]
    Busy(PathBuf),
    #[error("cannot make the control socket {path}: {source}; choose another `control` path")]
    Io { path: PathBuf, source: io::Error },
}

impl Control {
    /// Makes the socket; what a daemon that was killed left is replaced.
    pub(crate) fn bind(path: &Path) -> Result<Self, ControlError> {
        let io = |source| ControlError::Io { path: path.into(), source };
        let listener = match UnixListener::bind(path) {
            Err(e) if e.kind() == ErrorKind::AddrInUse => match UnixStream::connect(path) {
                Err(e) if e.kind() == ErrorKind::ConnectionRefused => {
                    std::fs::remove_file(path).map_err(io)?;
                    UnixListener::bind(path).map_err(io)?
                }
                _ => return Err(ControlError::Busy(path.into())),
            },
            other => other.map_err(io)?,
        };
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(io)?;
        listener.set_nonblocking(true).map_err(io)?;
        Ok(Self { listener, path: path.into() })
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
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use std::io::Read;

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
