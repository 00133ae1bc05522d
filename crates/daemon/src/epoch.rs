//! The boot epoch: greater at every start than at all earlier ones with the same key, whatever the clock says.
//!
//! Peers take a gateway for restarted, and accept its handshakes, only if its epoch has grown. The wall clock alone
//! is not enough: set back, it would lock the gateway out until it has caught up. So the last epoch is kept in a file,
//! and the next is the wall clock or one more than the last, whichever is greater.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The file holds one number; a longer one is something else.
const FILE_MAX: u64 = 64;

/// The epoch of this start, and a line for the log if it could not be kept.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Epoch {
    pub(crate) value: u64,
    pub(crate) remark: Option<String>,
}

/// Takes the next epoch after the one that `path` holds, and writes it there. A file that cannot be used costs only
/// the protection against a clock that goes back.
pub(crate) fn next(path: &Path, wall: u64) -> Epoch {
    let (last, unread) = match read(path) {
        Ok(last) => (last, None),
        Err(e) => (0, Some(e)),
    };
    let value = wall.max(last.saturating_add(1));
    let unkept = write(path, value).err().or(unread);
    let remark = unkept.map(|e| {
        format!(
            "warning: cannot keep the boot epoch in {} ({e}), so a clock set back before the next start would lock this gateway out: make its folder writable, or name another with `state`",
            path.display()
        )
    });
    Epoch { value, remark }
}

/// The last epoch; zero if there was none.
fn read(path: &Path) -> io::Result<u64> {
    let mut text = String::new();
    match File::open(path) {
        Ok(file) => drop(file.take(FILE_MAX).read_to_string(&mut text)?),
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(0),
        Err(e) => return Err(e),
    }
    text.trim().parse().map_err(|_| io::Error::new(ErrorKind::InvalidData, "it held no number; it was written anew"))
}

/// Replaces the file as a whole, so that a power cut leaves the old number or the new one.
fn write(path: &Path, value: u64) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let fresh = path.with_extension("epoch-new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
    writeln!(file, "{value}")?;
    file.sync_all()?;
    std::fs::rename(&fresh, path)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn epochs_grow_although_the_clock_goes_back() {
        let dir = std::env::temp_dir().join(format!("wavelane-epoch-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        let path = dir.join("new/a.epoch");
        let values = [1_000, 2_000, 500, 2_001, 9_000].map(|wall| next(&path, wall));
        assert!(values.iter().all(|e| e.remark.is_none()), "{values:?}");
        assert_eq!(values.map(|e| e.value), [1_000, 2_000, 2_001, 2_002, 9_000]);
        assert!(!path.with_extension("epoch-new").exists());
        for wrong in ["", "soon", "-4", &"9".repeat(100)] {
            std::fs::write(&path, wrong).unwrap();
            let epoch = next(&path, 7_000);
            assert_eq!(epoch.value, 7_000);
            let remark = epoch.remark.unwrap();
            assert!(remark.contains("held no number") && !remark.contains('\n'), "{remark}");
            assert_eq!(next(&path, 1), Epoch { value: 7_001, remark: None });
        }
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_said_and_the_clock_serves() {
        let epoch = next(Path::new("/proc/none/a.epoch"), 5);
        assert_eq!(epoch.value, 5);
        assert!(epoch.remark.unwrap().contains("`state`"));
    }
}
