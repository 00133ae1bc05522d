//! The boot epoch: greater at every start than at all earlier ones with the same key, whatever the clock says.
//!
//! Peers take a gateway for restarted, and accept its handshakes, only if its epoch has grown. The wall clock alone
//! is not enough: set back, it would lock the gateway out until it has caught up. So the last epoch is kept in a file,
//! and the next is the wall clock or one more than the last, whichever is greater.

use crate::config::LOCK_SUFFIX;
use crate::start::StartError;
use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use wavelane_base::{Instant, Span};
use wavelane_host::files;

/// The file holds one number; a longer one is something else.
const FILE_MAX: u64 = 64;
/// A state file that could not be written is tried again after this long.
pub(crate) const RETRY_EVERY: Span = Span::from_secs(10);
/// How often a write that is going on is looked after.
pub(crate) const LOOK_EVERY: Span = Span::from_secs(1);

/// The epoch of this start, and a line for the log if it could not be kept.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Epoch {
    pub(crate) value: u64,
    pub(crate) remark: Option<String>,
    /// The file holds it.
    kept: bool,
}

/// Takes the next epoch after the one that `path` holds, and writes it there. A file that cannot be used costs only
/// the protection against a clock that goes back.
pub(crate) fn next(path: &Path, wall: u64) -> Epoch {
    let (last, unread) = match read(path) {
        Ok(last) => (last, None),
        Err(e) => (0, Some(e)),
    };
    let value = wall.max(last.saturating_add(1));
    let unkept = write(path, value).err();
    let kept = unkept.is_none();
    let place = path.display();
    let remark = match (unkept, unread) {
        (Some(e), _) => Some(format!(
            "warning: cannot keep the boot epoch in {place} ({e}), so a clock set back before the next start would lock this gateway out: {}",
            remedy(&e)
        )),
        (None, Some(e)) => Some(format!(
            "warning: cannot read the boot epoch in {place} ({e}), so if the clock was set back since the last start peers take this gateway for its past self until the clock has caught up: set the clock"
        )),
        (None, None) => None,
    };
    Epoch { value, remark, kept }
}

/// Holds the state file for as long as the program runs: two gateways of one key would lock each other out in turn.
/// `Ok(None)` where it cannot be held, which [`next`] remarks on; the file itself is replaced at every write, so one beside
/// it is locked.
pub(crate) fn hold(state: &Path) -> Result<Option<File>, StartError> {
    let path = files::with_suffix(state, LOCK_SUFFIX);
    let opened = state.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| files::append(&path));
    let file = match opened {
        Ok(file) => file,
        // Somebody put it there so that it locks nothing.
        Err(source) if path.symlink_metadata().is_ok_and(|about| !about.is_file()) => {
            return Err(StartError::Lock { path, source });
        }
        Err(_) => return Ok(None),
    };
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(StartError::Running { state: state.to_owned() }),
        Err(TryLockError::Error(_)) => Ok(None),
        Ok(()) => Ok(Some(file)),
    }
}

/// Whether something else is in the file's place, which stays: an earlier start wrote a number, whole or cut off.
pub(crate) fn is_foreign(path: &Path) -> bool {
    let is_ours = |byte: &u8| byte.is_ascii_digit() || byte.is_ascii_whitespace() || *byte == 0;
    match files::read_small(path, FILE_MAX) {
        Ok(bytes) => !bytes.iter().all(is_ours),
        Err(e) => e.kind() == ErrorKind::InvalidData,
    }
}

/// Replaces what an earlier start wrote, and nothing else.
fn write(path: &Path, value: u64) -> io::Result<()> {
    if is_foreign(path) {
        return Err(io::Error::new(ErrorKind::AlreadyExists, "it holds something else than an epoch"));
    }
    files::replace(path, format!("{value}\n").as_bytes())
}

/// The remedy if a state file cannot be written.
pub(crate) fn remedy(why: &io::Error) -> String {
    let cure = match why.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "make room there",
        ErrorKind::ReadOnlyFilesystem => "mount its file system writable",
        ErrorKind::AlreadyExists => "remove it if nobody needs it",
        _ => "make its folder writable",
    };
    format!("{cure}, or name another with `state` (it is tried again every {} s)", RETRY_EVERY.as_secs_f64())
}

/// Writes again, until that works, an epoch that could not be kept. Disks may be slow, so a thread writes.
#[derive(Debug)]
pub(crate) struct Keeper {
    path: PathBuf,
    value: u64,
    /// When there is something to do: never once the file holds the epoch.
    next: Option<Instant>,
    writing: Option<JoinHandle<io::Result<()>>>,
}

impl Keeper {
    pub(crate) fn new(now: Instant, path: &Path, epoch: &Epoch) -> Self {
        let next = (!epoch.kept).then(|| now + RETRY_EVERY);
        Self { path: path.into(), value: epoch.value, next, writing: None }
    }
    /// Time has passed. Gives back a line for the log.
    pub(crate) fn tick(&mut self, now: Instant) -> Option<String> {
        if let Some(thread) = self.writing.take_if(|t| t.is_finished()) {
            if matches!(thread.join(), Ok(Ok(()))) {
                self.next = None;
                return Some(format!("the boot epoch is kept in {} now", self.path.display()));
            }
            self.next = Some(now + RETRY_EVERY);
        }
        if self.next.is_some_and(|at| at <= now) {
            if self.writing.is_none() {
                let (path, value) = (self.path.clone(), self.value);
                let work = move || write(&path, value);
                self.writing = std::thread::Builder::new().name("epoch".into()).spawn(work).ok();
            }
            self.next = Some(now + if self.writing.is_some() { LOOK_EVERY } else { RETRY_EVERY });
        }
        None
    }
    /// When [`Keeper::tick`] has something to do.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.next
    }
}

/// The last epoch; zero if there was none.
fn read(path: &Path) -> io::Result<u64> {
    let none = || io::Error::new(ErrorKind::InvalidData, "it held no number; it was written anew");
    let bytes = match files::read_small(path, FILE_MAX) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(0),
        Err(e) if e.kind() == ErrorKind::InvalidData => return Err(none()),
        Err(e) => return Err(e),
    };
    str::from_utf8(&bytes).ok().and_then(|text| text.trim().parse().ok()).ok_or_else(none)
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
        for foreign in ["soon", "-4", &"9".repeat(100)] {
            std::fs::write(&path, foreign).unwrap();
            let epoch = next(&path, 7_000);
            assert_eq!((epoch.value, epoch.kept), (7_000, false));
            let remark = epoch.remark.unwrap();
            assert!(remark.contains("something else") && remark.contains("remove it"), "{remark}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), foreign, "it stays");
        }
        for wrong in ["", "\0\0\0\0", "12 34"] {
            std::fs::write(&path, wrong).unwrap();
            let epoch = next(&path, 7_000);
            assert_eq!(epoch.value, 7_000);
            let remark = epoch.remark.unwrap();
            assert!(remark.contains("held no number") && !remark.contains('\n'), "{remark}");
            assert_eq!(next(&path, 1), Epoch { value: 7_001, remark: None, kept: true });
        }
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn one_daemon_at_a_time_holds_a_state_file() {
        let dir = std::env::temp_dir().join(format!("wavelane-hold-{}", std::process::id()));
        let path = dir.join("a.epoch");
        let first = hold(&path).unwrap();
        assert!(first.is_some());
        let error = hold(&path).unwrap_err().to_string();
        assert!(error.contains("a.epoch") && error.contains("stop it first"), "{error}");
        assert!(hold(&dir.join("b.epoch")).unwrap().is_some());
        drop(first);
        assert!(hold(&path).unwrap().is_some(), "the system ends a lock with its program");
        assert!(hold(Path::new("/proc/none/a.epoch")).unwrap().is_none());
        // What would lock nothing, or another's file, is said and left alone.
        let (link, pipe, other) = (dir.join("c.epoch-lock"), dir.join("d.epoch-lock"), dir.join("other"));
        std::os::unix::fs::symlink(&other, &link).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for name in ["c.epoch", "d.epoch"] {
            let error = hold(&dir.join(name)).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("is a link, or no plain file"), "{error}");
        }
        assert!(link.is_symlink() && !other.exists());
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_said_and_the_clock_serves() {
        let epoch = next(Path::new("/proc/none/a.epoch"), 5);
        assert_eq!(epoch.value, 5);
        assert!(epoch.remark.unwrap().contains("`state`"));
    }

    #[test]
    fn a_full_disk_is_named_and_retried() {
        let of = |code| remedy(&io::Error::from_raw_os_error(code));
        for (code, cure) in [(28, "make room"), (122, "make room"), (30, "mount"), (13, "folder writable")] {
            assert!(of(code).contains(cure) && of(code).contains("every 10 s"), "{}", of(code));
        }
        let dir = std::env::temp_dir().join(format!("wavelane-keeper-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        // A file where its folder is to be.
        let path = dir.join("in/a.epoch");
        std::fs::write(dir.join("in"), "").unwrap();
        let epoch = next(&path, 5);
        assert!(!epoch.kept);
        let mut keeper = Keeper::new(Instant::ZERO, &path, &epoch);
        let mut settle = |s| {
            let now = Instant::from_secs(s);
            let mut said = keeper.tick(now);
            while keeper.writing.is_some() {
                std::thread::yield_now();
                said = said.or(keeper.tick(now));
            }
            (said, keeper.deadline())
        };
        assert_eq!(settle(9), (None, Some(Instant::from_secs(10))));
        assert_eq!(settle(10), (None, Some(Instant::from_secs(20))));
        std::fs::remove_file(dir.join("in")).unwrap();
        let (said, deadline) = settle(20);
        assert!(said.unwrap().contains("is kept in") && deadline.is_none());
        assert_eq!(read(&path).unwrap(), 5);
        let kept = next(&path, 1);
        assert_eq!((kept.value, Keeper::new(Instant::ZERO, &path, &kept).deadline()), (6, None));
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
