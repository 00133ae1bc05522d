//! The file that data keys are appended to, when the operator wants to open captures.

use crate::start::StartError;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use wavelane_gateway::LoggedKey;

/// An open key log.
pub(crate) struct KeyLog {
    file: File,
    path: PathBuf,
    failed: bool,
}

impl KeyLog {
    /// Opens it, readable for its owner alone if it is made here. Keys are appended.
    pub(crate) fn open(path: &Path) -> Result<Self, StartError> {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path);
        let file = file.map_err(|source| StartError::KeyLog { path: path.to_owned(), source })?;
        Ok(Self { file, path: path.to_owned(), failed: false })
    }
    /// What the operator is told at the start.
    pub(crate) fn remark(&self) -> String {
        format!("warning: data keys go to {}: whoever reads that file reads the traffic", self.path.display())
    }
    /// Appends a key. Only the first of failures in a row is returned: the disk may be full for long.
    pub(crate) fn append(&mut self, key: &LoggedKey) -> Option<String> {
        // One write per line, for several gateways may append to one file.
        let wrote: io::Result<()> = self.file.write_all(format!("{key}\n").as_bytes());
        let first = !core::mem::replace(&mut self.failed, wrote.is_err());
        let why = wrote.err().filter(|_| first)?;
        Some(format!("cannot append to the key log {}: {why}; traffic goes on", self.path.display()))
    }
}
