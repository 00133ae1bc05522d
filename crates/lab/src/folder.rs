//! A private folder for keys and sockets that is removed with the run.

use crate::LabError;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Prefix of this process's folder names, followed by its process id.
const PREFIX: &str = "wavelane-lab-";

/// A folder only its owner may read, removed on drop.
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Creates a folder. Folders of processes that were killed before their clean-up are removed first.
    pub(crate) fn new() -> Result<Self, LabError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        sweep();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("{PREFIX}{}-{number}", std::process::id()));
        let made = std::fs::DirBuilder::new().mode(0o700).create(&path);
        made.map_err(LabError::io(format!("cannot make {}; set TMPDIR to a writable folder", path.display())))?;
        Ok(Self(path))
    }

    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Anything left is removed by the next run.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Whether a process with that id is alive.
pub(crate) fn alive(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

/// Removes folders of processes that were killed before their clean-up.
fn sweep() {
    let entries = std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = name.strip_prefix(PREFIX).and_then(|rest| rest.split_once('-')).map(|(pid, _)| pid.parse::<u32>());
        if let Some(Ok(pid)) = owner
            && !alive(pid)
        {
            // Another run may be removing it too.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}
