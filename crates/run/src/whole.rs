//! Files and folders that are in their place whole or not at all: written beside it under another name, then renamed.

use crate::drive::RunError;
use core::hash::BuildHasher;
use std::collections::hash_map::RandomState;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Between a name and what makes its draft unique.
const DRAFT: &str = ".draft-";
/// The same of what a draft replaces.
const EARLIER: &str = ".earlier-";
/// The same of a draft that is not locked yet.
const NEW: &str = ".new-";

/// A name beside `place` that nobody else has.
fn beside(place: &Path, mark: &str) -> PathBuf {
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    // Process ids repeat: in a container they are the same at every start.
    place.with_file_name(format!(".{name}{mark}{:016x}", RandomState::new().hash_one(std::process::id())))
}

/// How the drafts of a place begin.
pub(crate) fn draft_prefix(place: &Path) -> String {
    format!(".{}{DRAFT}", place.file_name().unwrap_or_default().to_string_lossy())
}

/// Where the draft of what will be at `place` is written.
pub fn draft_of(place: &Path) -> PathBuf {
    beside(place, DRAFT)
}

/// Where what a draft replaces waits meanwhile.
pub(crate) fn earlier_of(draft: &Path) -> PathBuf {
    let name = draft.file_name().unwrap_or_default().to_string_lossy().replacen(DRAFT, EARLIER, 1);
    draft.with_file_name(name)
}

/// Writes a file whole or not at all: nothing half-written stays. A link is followed.
pub fn write_whole(path: &Path, content: impl AsRef<[u8]>) -> io::Result<()> {
    let path = &if path.is_symlink() { path.canonicalize()? } else { path.to_path_buf() };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let draft = path.with_file_name(format!(".{name}.draft"));
    let written = std::fs::write(&draft, content).and_then(|()| std::fs::rename(&draft, path));
    written.inspect_err(|_| drop(std::fs::remove_file(&draft)))
}

/// Puts the folder `draft` in the place of `out`, where an earlier one of its kind may be. What `foreign` finds in that one, because
/// others put it there meanwhile, is taken along. Whatever fails or ends the program on the way, no file of others is removed, and
/// the new folder stays whole somewhere.
pub fn put_in_place(draft: &Path, out: &Path, foreign: impl Fn(&Path) -> Option<PathBuf>) -> Result<(), RunError> {
    let stuck = |error: &io::Error| {
        let (out, draft) = (out.display(), draft.display());
        RunError::Refused(format!(
            "cannot put the record in {out}: {error}; it is whole in {draft}: move it from there"
        ))
    };
    let earlier = out.exists().then(|| earlier_of(draft));
    let moved = earlier.as_ref().map_or(Ok(()), |earlier| std::fs::rename(out, earlier));
    moved.map_err(|e| stuck(&e))?;
    if let Err(error) = std::fs::rename(draft, out) {
        let _ = earlier.map(|earlier| std::fs::rename(earlier, out));
        return Err(stuck(&error));
    }
    let Some(earlier) = earlier else { return Ok(()) };
    while let Some(found) = foreign(&earlier) {
        let (from, to) = (earlier.join(&found), out.join(&found));
        let free = to.symlink_metadata().is_err();
        let folder = to.parent().map_or(Ok(()), std::fs::create_dir_all);
        if !free || folder.and_then(|()| std::fs::rename(&from, &to)).is_err() {
            let (out, from) = (out.display(), from.display());
            let why =
                format!("the record is in {out}, but {from}, which no run wrote, cannot be moved there: move it away");
            return Err(RunError::Refused(why));
        }
    }
    let removed = std::fs::remove_dir_all(&earlier);
    removed.map_err(|e| RunError::Unwritable { path: earlier, why: e.to_string() })
}

/// A new file that has its name once it is whole. Dropped before that, it leaves nothing.
pub struct NewFile {
    file: File,
    draft: PathBuf,
    out: PathBuf,
}

impl NewFile {
    /// Begins one; refuses what is there. Drafts whose writer was killed are removed.
    pub fn begin(out: &Path) -> io::Result<Self> {
        Self::check_free(out)?;
        let parent = out.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let prefix = draft_prefix(out);
        for entry in std::fs::read_dir(parent)?.flatten() {
            let abandoned = || File::open(entry.path()).is_ok_and(|held| held.try_lock().is_ok());
            if entry.file_name().to_string_lossy().starts_with(&prefix) && entry.path().is_file() && abandoned() {
                let _ = std::fs::remove_file(entry.path());
            }
        }
        // It is called a draft once it is locked: nobody takes it for abandoned while its writer lives.
        let (unnamed, draft) = (beside(out, NEW), draft_of(out));
        let file = File::create_new(&unnamed)?;
        let held = file.lock().and_then(|()| std::fs::rename(&unnamed, &draft));
        held.inspect_err(|_| drop(std::fs::remove_file(&unnamed)))?;
        Ok(Self { file, draft, out: out.to_owned() })
    }

    fn check_free(out: &Path) -> io::Result<()> {
        match out.symlink_metadata() {
            Ok(_) => Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "exists, and nothing is written over: choose another name or remove it",
            )),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(e) => Err(e),
        }
    }

    /// What to write into.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Gives it its name, which nobody else may have taken meanwhile.
    pub fn keep(self) -> io::Result<()> {
        self.file.sync_all()?;
        match std::fs::hard_link(&self.draft, &self.out) {
            // Some file systems have one name per file.
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
                Self::check_free(&self.out).and_then(|()| std::fs::rename(&self.draft, &self.out))
            }
            // Whoever took the name may have given it back since: nothing was written all the same.
            Err(e) => Self::check_free(&self.out).and(Err(e)),
            Ok(()) => Ok(()),
        }
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        // A kept one has its other name.
        let _ = std::fs::remove_file(&self.draft);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use std::io::Write;

    #[test]
    fn a_file_has_its_name_when_it_is_whole() {
        let place = std::env::temp_dir().join(format!("wavelane-whole-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&place);
        std::fs::create_dir_all(&place).unwrap();
        let out = place.join("opened.pcapng");
        let count = || std::fs::read_dir(&place).unwrap().count();
        let half = NewFile::begin(&out).unwrap();
        half.file().write_all(b"half").unwrap();
        assert!(!out.exists());
        drop(half);
        assert_eq!(count(), 0, "nothing half made is left");
        // Of a writer that was killed, and of one that writes.
        std::fs::write(place.join(".opened.pcapng.draft-1"), "half").unwrap();
        let first = NewFile::begin(&out).unwrap();
        let second = NewFile::begin(&out).unwrap();
        assert_eq!(count(), 2);
        first.file().write_all(b"whole").unwrap();
        first.keep().unwrap();
        assert_eq!(second.keep().unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        let why = NewFile::begin(&out).err().unwrap().to_string();
        assert!(why.contains("choose another name"), "{why}");
        assert_eq!((count(), std::fs::read_to_string(&out).unwrap()), (1, "whole".into()));
        std::os::unix::fs::symlink("nowhere", place.join("link")).unwrap();
        assert!(NewFile::begin(&place.join("link")).is_err());
        std::fs::remove_dir_all(&place).unwrap();
    }
}
