//! A conversation with the running daemon by its control socket.

use super::{CommandError, socket_of};
use crate::request::{Answer, Ask};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// No answer is longer.
const ANSWER_MAX: usize = 1 << 20;

/// The daemon, asked.
pub(super) struct Asking {
    stream: UnixStream,
    path: PathBuf,
    heard: Vec<u8>,
}

impl Asking {
    /// Turns to the daemon with this control socket, or to the only one here.
    pub(super) fn begin(control: Option<&Path>) -> Result<Self, CommandError> {
        let path = socket_of(control)?;
        let stream = UnixStream::connect(&path);
        let stream = stream.map_err(|source| CommandError::no_daemon(&path, source))?;
        Ok(Self { stream, path, heard: Vec::new() })
    }

    pub(super) fn ask(&mut self, ask: &Ask) -> Result<(), CommandError> {
        let line = serde_json::to_string(ask).unwrap_or_default() + "\n";
        match self.stream.write_all(line.as_bytes()) {
            // What the other end said before it ended tells what it is.
            Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(()),
            other => other.map_err(|source| self.gone(source)),
        }
    }

    /// The next answer; `None` if none came within `patience`, or a signal came.
    pub(super) fn hear(&mut self, patience: Duration) -> Result<Option<Answer>, CommandError> {
        loop {
            if let Some(end) = self.heard.iter().position(|octet| *octet == b'\n') {
                let line: Vec<u8> = self.heard.drain(..=end).collect();
                return match serde_json::from_slice(&line) {
                    Ok(answer) => Ok(Some(answer)),
                    Err(_) => Err(self.strange(&line)),
                };
            }
            // A timeout of zero would wait for ever.
            let timeout = Some(patience.max(Duration::from_millis(1)));
            self.stream.set_read_timeout(timeout).map_err(|source| self.gone(source))?;
            let mut part = [0; 4_096];
            match self.stream.read(&mut part) {
                Ok(0) if self.heard.is_empty() => return Err(self.gone(ErrorKind::UnexpectedEof.into())),
                Ok(n) if n > 0 && self.heard.len() <= ANSWER_MAX => self.heard.extend_from_slice(&part[..n]),
                Ok(_) => return Err(self.strange(&self.heard)),
                Err(e) if [ErrorKind::WouldBlock, ErrorKind::TimedOut, ErrorKind::Interrupted].contains(&e.kind()) => {
                    return Ok(None);
                }
                // It ended without having read the question.
                Err(_) if !self.heard.is_empty() => return Err(self.strange(&self.heard)),
                Err(source) => return Err(self.gone(source)),
            }
        }
    }

    fn gone(&self, source: std::io::Error) -> CommandError {
        CommandError::no_daemon(&self.path, source)
    }

    /// An answer to something else.
    pub(super) fn strange_answer(&self) -> CommandError {
        CommandError::StrangeAnswer(self.path.clone())
    }

    /// What is no answer may be the status document of a proxy, which is asked nothing else.
    fn strange(&self, line: &[u8]) -> CommandError {
        match super::proxy_report(&String::from_utf8_lossy(line)) {
            Some(_) => CommandError::OfProxy(self.path.clone()),
            None => self.strange_answer(),
        }
    }
}
