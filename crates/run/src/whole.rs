//! Files and folders that appear whole or not at all: written beside their place under another name, then renamed.

use crate::drive::RunError;
use core::hash::BuildHasher;
use std::collections::hash_map::RandomState;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use wavelane_base::text::ShownPath;

/// Between a name and what makes its draft unique.
const DRAFT: &str = ".draft-";
/// The same of what a draft replaces.
const EARLIER: &str = ".earlier-";
/// The same of a draft that is not locked yet.
const NEW: &str = ".new-";

/// Links in a row that are followed, as many as the kernel follows.
const LINKS_MAX: usize = 40;

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
    renamed(draft, DRAFT, EARLIER)
}

/// The same place with another mark in its name.
fn renamed(place: &Path, from: &str, to: &str) -> PathBuf {
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    // The last one: what comes before it is the record's own name.
    let at = name.rfind(from).unwrap_or(0);
    place.with_file_name(format!("{}{}", &name[..at], name[at..].replacen(from, to, 1)))
}

/// Writes a file whole or not at all: nothing half-written stays. A link in its place, or in its draft's, is replaced and not
/// followed: in a folder of others it may lead to any file.
pub fn write_whole(path: &Path, content: impl AsRef<[u8]>) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let draft = path.with_file_name(format!(".{name}.draft"));
    match std::fs::remove_file(&draft) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let written = File::create_new(&draft).and_then(|mut file| file.write_all(content.as_ref()));
    let written = written.and_then(|()| std::fs::rename(&draft, path));
    written.inspect_err(|_| drop(std::fs::remove_file(&draft)))
}

/// Octets at the beginning of a file by which it is known.
const HEAD: u64 = 1_024;

/// Refuses a place where a file of others is: anything but nothing, or a plain file whose beginning `is_ours`.
pub fn check_own(path: &Path, is_ours: impl Fn(&[u8]) -> bool) -> io::Result<()> {
    let foreign = |why| Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
    match path.symlink_metadata() {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(e),
        Ok(about) if !about.is_file() => return foreign("it is a link, or no plain file"),
        Ok(_) => {}
    }
    let mut head = Vec::new();
    File::open(path)?.take(HEAD).read_to_end(&mut head)?;
    if is_ours(&head) { Ok(()) } else { foreign("it holds something else, and is not written over") }
}

/// Puts the folder `draft` in the place of `out`, where an earlier one of its kind may be. What `foreign` finds in that one, because
/// others put it there meanwhile, is taken along. Whatever fails or ends the program on the way, no file of others is removed, and
/// the new folder stays whole somewhere; [`recover`] finishes what a killed program began.
pub fn put_in_place(draft: &Path, out: &Path, foreign: impl Fn(&Path) -> Option<PathBuf>) -> Result<(), RunError> {
    replace(draft, out, foreign, || ())
}

/// The same; `between` is called while neither folder has the name.
fn replace(
    draft: &Path,
    out: &Path,
    foreign: impl Fn(&Path) -> Option<PathBuf>,
    between: impl FnOnce(),
) -> Result<(), RunError> {
    let stuck = |error: &io::Error| {
        let (out, draft) = (out.shown(), draft.shown());
        RunError::Refused(format!(
            "cannot put the record in {out}: {error}; it is whole in {draft}: move it from there"
        ))
    };
    let earlier = out.exists().then(|| earlier_of(draft));
    // Locked for as long as this program lives, so that nobody takes it for the leftover of a killed program.
    let _held = earlier.as_ref().and_then(|_| locked(out));
    let moved = earlier.as_ref().map_or(Ok(()), |earlier| std::fs::rename(out, earlier));
    moved.map_err(|e| stuck(&e))?;
    between();
    if let Err(error) = std::fs::rename(draft, out) {
        let _ = earlier.map(|earlier| std::fs::rename(earlier, out));
        return Err(stuck(&error));
    }
    earlier.map_or(Ok(()), |earlier| clear(&earlier, out, foreign))
}

/// The folder, locked for as long as the file is open, unless somebody else has it locked.
fn locked(folder: &Path) -> Option<File> {
    File::open(folder).ok().filter(|held| held.try_lock().is_ok())
}

/// Removes the folder that `out` has replaced, except what is of others, which `out` gets.
fn clear(earlier: &Path, out: &Path, foreign: impl Fn(&Path) -> Option<PathBuf>) -> Result<(), RunError> {
    while let Some(found) = foreign(earlier) {
        let (from, to) = (earlier.join(&found), out.join(&found));
        let free = to.symlink_metadata().is_err();
        let folder = to.parent().map_or(Ok(()), std::fs::create_dir_all);
        if !free || folder.and_then(|()| std::fs::rename(&from, &to)).is_err() {
            let (out, from) = (out.shown(), from.shown());
            let why =
                format!("the record is in {out}, but {from}, which no run wrote, cannot be moved there: move it away");
            return Err(RunError::Refused(why));
        }
    }
    let removed = std::fs::remove_dir_all(earlier);
    removed.map_err(|e| RunError::Unwritable { path: earlier.to_owned(), why: e.to_string() })
}

/// Finishes what a program began that was killed in [`put_in_place`]. If nothing is at `out`, the new folder is moved there if it
/// is still beside it, else the earlier one. What a folder at `out` that holds `mark` has replaced is removed, except what
/// `foreign` finds in it. What a living program replaces is left alone.
pub fn recover(out: &Path, mark: &str, foreign: impl Fn(&Path) -> Option<PathBuf>) -> Result<(), RunError> {
    let out = &behind_links(out);
    let left = left_beside(out);
    let is_there = out.symlink_metadata().is_ok();
    match left.as_slice() {
        [(earlier, _)] if !is_there => {
            let draft = renamed(earlier, EARLIER, DRAFT);
            let whole = if draft.exists() { &draft } else { earlier };
            std::fs::rename(whole, out).map_err(|e| {
                let (out, whole) = (out.shown(), whole.shown());
                RunError::Refused(format!(
                    "a program was killed while it replaced {out}, which is whole in {whole} and cannot be moved back ({e}): move \
                     it to {out}"
                ))
            })?;
        }
        [(earlier, _), (another, _), ..] if !is_there => {
            let (out, earlier, another) = (out.shown(), earlier.shown(), another.shown());
            return Err(RunError::Refused(format!(
                "programs were killed while they replaced {out}, and which one of {earlier} and {another} it was last is not known: \
                 rename one to {out}"
            )));
        }
        _ => {}
    }
    let whole = out.join(mark).exists();
    left.iter()
        .filter(|(earlier, _)| whole && earlier.exists())
        .try_for_each(|(earlier, _)| clear(earlier, out, &foreign))
}

/// Where a path leads, also if nothing is there.
fn behind_links(path: &Path) -> PathBuf {
    // Without a slash at the end, which is no part of the name and hides a link.
    let mut at: PathBuf = path.components().collect();
    for _ in 0..LINKS_MAX {
        let Ok(to) = std::fs::read_link(&at) else { break };
        at = at.parent().unwrap_or(Path::new("")).join(to).components().collect();
    }
    at
}

/// Whether a folder at `out` is being replaced, or was when its program was killed: nothing may be at `out` meanwhile.
pub fn is_replaced(out: &Path) -> bool {
    !earlier_beside(out).is_empty()
}

/// What killed programs left of a replacement at `out`, each locked.
fn left_beside(out: &Path) -> Vec<(PathBuf, File)> {
    let earlier = earlier_beside(out).into_iter();
    earlier.filter_map(|earlier| locked(&earlier).map(|held| (earlier, held))).collect()
}

/// What waits beside `out` while it is replaced.
fn earlier_beside(out: &Path) -> Vec<PathBuf> {
    let prefix = format!(".{}{EARLIER}", out.file_name().unwrap_or_default().to_string_lossy());
    let parent = out.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
    let is_number = |text: &str| text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let of_out =
        entries.filter(|entry| entry.file_name().to_string_lossy().strip_prefix(&prefix).is_some_and(is_number));
    let mut earlier: Vec<PathBuf> = of_out.map(|entry| entry.path()).collect();
    earlier.sort();
    earlier
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
        // It is called a draft only once it is locked: nobody takes it for abandoned while its writer lives.
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
            // The name may have been released since: nothing was written all the same.
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
        // From a writer that was killed, and from one that still writes.
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

    #[test]
    fn a_link_in_a_files_place_is_replaced_and_not_followed() {
        let place = std::env::temp_dir().join(format!("wavelane-through-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&place);
        std::fs::create_dir_all(&place).unwrap();
        let (victim, page) = (place.join("victim"), place.join("report.html"));
        std::fs::write(&victim, "years").unwrap();
        for link in [&page, &place.join(".report.html.draft")] {
            std::os::unix::fs::symlink(&victim, link).unwrap();
        }
        write_whole(&page, "page").unwrap();
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "years");
        assert!(!page.is_symlink());
        assert_eq!(std::fs::read_to_string(&page).unwrap(), "page");
        assert_eq!(std::fs::read_dir(&place).unwrap().count(), 2, "no draft is left");
        std::fs::remove_dir_all(&place).unwrap();
    }

    /// A folder with one file, and what of others was put there.
    fn folder(path: &Path, content: &str, of_others: Option<&str>) {
        std::fs::create_dir_all(path).unwrap();
        std::fs::write(path.join("record.json"), content).unwrap();
        of_others.into_iter().for_each(|name| std::fs::write(path.join(name), "years").unwrap());
    }

    fn others(folder: &Path) -> Option<PathBuf> {
        let names = std::fs::read_dir(folder).ok()?.flatten().map(|entry| PathBuf::from(entry.file_name()));
        names.filter(|name| name != Path::new("record.json")).min()
    }

    /// Where the test below is killed, in a process of its own.
    const KILLED: &str = "WAVELANE_TEST_KILLED";

    #[test]
    fn a_killed_replacement_is_finished() {
        let me = "whole::tests::a_killed_replacement_is_finished";
        if let Some(killed) = std::env::var_os(KILLED) {
            let killed = PathBuf::from(killed);
            let between = killed.ends_with("between");
            let abort = |_: &Path| std::process::abort();
            let of_others = |at: &Path| if between { others(at) } else { abort(at) };
            let stop = || {
                if between {
                    std::process::abort()
                }
            };
            _ = replace(&killed.join(".r.draft-00000000000000aa"), &killed.join("r"), of_others, stop);
            return;
        }
        let place = std::env::temp_dir().join(format!("wavelane-killed-{}", std::process::id()));
        for (when, has_draft) in [("between", true), ("between", false), ("after", true)] {
            let _ = std::fs::remove_dir_all(&place);
            let at = place.join(when);
            let (out, draft) = (at.join("r"), at.join(".r.draft-00000000000000aa"));
            folder(&out, "1", Some("notes.md"));
            folder(&draft, "2", None);
            // From a record whose name begins alike.
            folder(&at.join(".r.earlier-x.draft-00000000000000aa"), "other", None);
            let status = std::process::Command::new(std::env::current_exe().unwrap())
                .args([me, "--exact"])
                .env(KILLED, &at)
                .stdout(std::process::Stdio::null())
                .stderr(std::process::Stdio::null())
                .status();
            assert!(!status.unwrap().success(), "it was killed");
            assert_eq!((out.exists(), earlier_of(&draft).exists()), (when == "after", true));
            if !has_draft {
                std::fs::remove_dir_all(&draft).unwrap();
            }
            recover(&out, "record.json", others).unwrap();
            let expected = if has_draft { "2" } else { "1" };
            assert_eq!(std::fs::read_to_string(out.join("record.json")).unwrap(), expected, "{when}");
            assert_eq!(std::fs::read_to_string(out.join("notes.md")).unwrap(), "years", "{when}");
            assert_eq!(std::fs::read_dir(&at).unwrap().count(), 2, "nothing is left beside it");
        }
        std::fs::remove_dir_all(&place).unwrap();
    }

    #[test]
    fn what_cannot_be_decided_is_told_and_what_lives_is_left() {
        let place = std::env::temp_dir().join(format!("wavelane-recover-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&place);
        let out = place.join("r");
        let earlier = |n: u64| place.join(format!(".r.earlier-{n:016x}"));
        folder(&earlier(1), "1", None);
        let living = locked(&earlier(1)).unwrap();
        recover(&out, "record.json", others).unwrap();
        assert!(earlier(1).exists() && !out.exists(), "its program lives");
        drop(living);
        folder(&earlier(2), "2", None);
        let why = recover(&out, "record.json", others).unwrap_err().to_string();
        assert!(
            why.contains(".r.earlier-0000000000000001 and ")
                && why.ends_with(&format!("rename one to {}", out.display()))
        );
        // A folder without a record belongs to somebody else.
        std::fs::create_dir(&out).unwrap();
        recover(&out, "record.json", others).unwrap();
        assert!(earlier(1).exists() && earlier(2).exists());
        folder(&out, "3", None);
        recover(&out, "record.json", others).unwrap();
        assert_eq!(std::fs::read_dir(&place).unwrap().count(), 1);
        // A link leads to it.
        std::fs::rename(&out, earlier(3)).unwrap();
        std::os::unix::fs::symlink("r", place.join("link")).unwrap();
        recover(&place.join("link"), "record.json", others).unwrap();
        assert_eq!(std::fs::read_to_string(place.join("link/record.json")).unwrap(), "3");
        // So do two in a row, also with a slash at the end; links in a circle lead nowhere.
        std::fs::rename(&out, earlier(4)).unwrap();
        std::os::unix::fs::symlink("link/", place.join("second")).unwrap();
        std::os::unix::fs::symlink("circle", place.join("circle")).unwrap();
        recover(&place.join("circle/"), "record.json", others).unwrap();
        assert!(!out.exists());
        recover(&place.join("second/"), "record.json", others).unwrap();
        assert_eq!(std::fs::read_to_string(out.join("record.json")).unwrap(), "3");
        std::fs::remove_dir_all(&place).unwrap();
    }
}
