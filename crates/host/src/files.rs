//! Small files that outlive the process. Other file types at their path (pipes, links) must not block it.

use socket2::{Domain, SockAddr, Socket, Type};
use std::ffi::OsString;
use std::fs::{File, FileType, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixListener;
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

/// Opens a file for appending; a newly created one is accessible only to its owner. Links are not followed, and neither another
/// user's file nor anything but a plain file is opened.
pub fn append(path: &Path) -> io::Result<File> {
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_NOFOLLOW;
    let file = OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(flags).open(path)?;
    let about = file.metadata()?;
    match about.is_file() && about.uid() == crate::user_id() {
        true => Ok(file),
        false if !about.is_file() => Err(io::Error::new(ErrorKind::InvalidInput, "it is no plain file")),
        false => {
            let why = format!("it belongs to user {}, not to us (user {})", about.uid(), crate::user_id());
            Err(io::Error::new(ErrorKind::PermissionDenied, why))
        }
    }
}

/// A socket file that only its owner may open, from its first moment on. What is there already stays.
pub fn listen_privately(path: &Path) -> io::Result<UnixListener> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM.cloexec(), None)?;
    // The file gets the socket's own mode (unix_bind of the kernel).
    nix::sys::stat::fchmod(&socket, nix::sys::stat::Mode::from_bits_truncate(0o600))?;
    socket.bind(&SockAddr::unix(path)?)?;
    socket.listen(128)?;
    Ok(OwnedFd::from(socket).into())
}

/// Whether `path` is a file of the kind that `wanted` says, no link, and belongs to us or to root.
pub fn is_own(path: &Path, wanted: impl Fn(&FileType) -> bool) -> bool {
    let ours = |about: &Metadata| [0, crate::user_id()].contains(&about.uid()) && wanted(&about.file_type());
    std::fs::symlink_metadata(path).is_ok_and(|about| ours(&about))
}

/// Behind a file's name: where what will replace it is written first. What is there already is removed.
pub const DRAFT_SUFFIX: &str = "-new";

/// Replaces a file atomically, so that a power failure leaves the old or the new. Only its owner may read it; missing folders are created.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let fresh = with_suffix(path, DRAFT_SUFFIX);
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
    fn links_and_what_is_no_plain_file_are_not_appended_to() {
        let dir = std::env::temp_dir().join(format!("wavelane-append-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        let (other, link, path) = (dir.join("other"), dir.join("link"), dir.join("log"));
        std::fs::write(&other, "untouched").unwrap();
        symlink(&other, &link).unwrap();
        for odd in [&link, &dir, Path::new("/dev/null")] {
            assert!(append(odd).is_err(), "{}", odd.display());
        }
        append(&path).unwrap().write_all(b"one").unwrap();
        assert_eq!(read_small(&path, 9).unwrap(), b"one");
        if crate::is_root() {
            nix::unistd::chown(&path, Some(65534.into()), None).unwrap();
            assert!(append(&path).unwrap_err().to_string().contains("user 65534"));
            assert!(!is_own(&path, FileType::is_file));
        }
        assert!(is_own(&other, FileType::is_file) && !is_own(&link, FileType::is_file));
        let socket = dir.join("s.sock");
        let _listener = listen_privately(&socket).unwrap();
        assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(listen_privately(&other).unwrap_err().kind(), ErrorKind::AddrInUse);
        std::fs::remove_dir_all(&dir).unwrap();
    }

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
