//! Small files that outlive the process. Other file types at their path (pipes, links) must not block it.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The flag with which opening and reading a pipe do not wait for its writer.
pub const NONBLOCKING: i32 = libc::O_NONBLOCK;

/// Reads a file of at most `max` bytes; `InvalidData` if it is longer, or not a regular file.
pub fn read_small(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    // Opening a pipe would block until it has a writer.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    let wrong = |why| Err(io::Error::new(ErrorKind::InvalidData, why));
    if !file.metadata()?.is_file() {
        return wrong("it is no plain file".to_owned());
    }
    let mut bytes = Vec::new();
    file.take(max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max {
        return wrong(format!("it is longer than {max} bytes"));
    }
    Ok(bytes)
}

/// Opens a file for appending; a newly created one is accessible only to its owner. A pipe without a reader is refused.
pub fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)
}

/// Replaces a file atomically, so that a power failure leaves the old or the new. Only its owner may read it; missing folders are created.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let fresh = with_suffix(path, "-new");
    // Anything already there, including a link or a pipe, is not written to.
    match std::fs::remove_file(&fresh) {
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
    let done = fill(file, bytes).and_then(|()| std::fs::rename(&fresh, path));
    if done.is_err() {
        // On a full disk, a partial file is removed.
        let _ = std::fs::remove_file(&fresh);
    } else {
        // The new file is in place in any case. Not every file system supports this, and the folder may not be readable.
        let _ = sync_folder_of(path);
    }
    done
}

/// Flushes the folder of `path` to disk: otherwise a power failure would undo a rename.
fn sync_folder_of(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

fn fill(mut file: File, bytes: &[u8]) -> io::Result<()> {
    file.write_all(bytes)?;
    file.sync_all()
}

/// The path with `suffix` appended to its last part.
pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn other_file_types_are_neither_read_nor_written() {
        let dir = std::env::temp_dir().join(format!("wavelane-files-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        let path = dir.join("new/a");
        assert_eq!(read_small(&path, 9).unwrap_err().kind(), ErrorKind::NotFound);
        replace(&path, b"one").unwrap();
        assert_eq!(read_small(&path, 3).unwrap(), b"one");
        assert_eq!(read_small(&path, 2).unwrap_err().kind(), ErrorKind::InvalidData);
        sync_folder_of(&path).unwrap();
        sync_folder_of(Path::new("bare")).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let (pipe, fresh, other) = (dir.join("pipe"), with_suffix(&path, "-new"), dir.join("other"));
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        for odd in [&pipe, &dir, Path::new("/dev/zero")] {
            assert_eq!(read_small(odd, 9).unwrap_err().kind(), ErrorKind::InvalidData, "{}", odd.display());
        }
        std::fs::write(&other, "untouched").unwrap();
        symlink(&other, &fresh).unwrap();
        replace(&path, b"two").unwrap();
        assert_eq!(read_small(&path, 9).unwrap(), b"two");
        assert_eq!(read_small(&other, 9).unwrap(), b"untouched");
        std::fs::rename(&pipe, &fresh).unwrap();
        replace(&path, b"three").unwrap();
        assert!(!fresh.exists());
        std::fs::create_dir(&fresh).unwrap();
        assert!(replace(&path, b"four").is_err());
        assert_eq!(read_small(&path, 9).unwrap(), b"three");
        // No space: no partial file remains.
        assert!(replace(Path::new("/proc/none/a"), b"five").is_err());
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
