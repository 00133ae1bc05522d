//! The file that decisions are appended to if a developer asks for it, so that they can be replayed (`decisions/replay.rs`).

use crate::config::Config;
use crate::decisions::words;
use crate::start::StartError;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use wavelane_base::Instant;
use wavelane_host::files;

/// Most octets that one run appends: a hundred thousand decisions.
const RECORDING_MAX: usize = 16 << 20;

pub(super) struct Recorder {
    file: File,
    left: usize,
    began: Instant,
}

impl Recorder {
    /// Opens it, readable for its owner alone if it is made here.
    pub(super) fn open(path: &Path, began: Instant, config: &Config) -> Result<Self, StartError> {
        let failed = |source| StartError::KeyLog { path: path.to_owned(), source };
        let mut recorder = Self { file: files::append(path).map_err(failed)?, left: RECORDING_MAX, began };
        recorder.append(&format!("start {}\n", words::line(config))).map_err(failed)?;
        Ok(recorder)
    }
    /// Appends what happened and what was ordered.
    pub(super) fn note(&mut self, now: Instant, happened: &str, ordered: &[String]) -> io::Result<()> {
        let at = now.since(self.began).as_nanos();
        let orders: String = ordered.iter().map(|order| format!("    {order}\n")).collect();
        self.append(&format!("{}.{:09} {happened}\n{orders}", at / 1_000_000_000, at % 1_000_000_000))
    }
    fn append(&mut self, text: &str) -> io::Result<()> {
        let full = || io::Error::other(format!("it has reached {} MiB", RECORDING_MAX >> 20));
        self.left = self.left.checked_sub(text.len()).ok_or_else(full)?;
        self.file.write_all(text.as_bytes())
    }
}
