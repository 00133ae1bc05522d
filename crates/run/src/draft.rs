//! A Record on its way to its place, and what may be removed there: the files that a run writes, and nothing else.

use crate::drive::{RunError, unwritable};
use crate::whole::{draft_of, draft_prefix, put_in_place, recover};
use core::hash::BuildHasher;
use std::collections::hash_map::RandomState;
use std::path::{Path, PathBuf};
use wavelane_base::text::ShownPath;
use wavelane_scenario::STACKS;

/// A directory that becomes the Record when everything in it is whole, and is removed otherwise.
pub(crate) struct Draft {
    pub(crate) temporary: PathBuf,
    out: PathBuf,
    kept: bool,
    /// The locked file that tells others that this draft is being written.
    _held: std::fs::File,
}

/// The file in a draft that its writer holds a lock on.
pub(crate) const HELD: &str = "held";

/// Marks a draft as being written for as long as the file is open, which the system ends when the program dies.
pub(crate) fn hold(draft: &Path) -> std::io::Result<std::fs::File> {
    // It gets its name only once it is locked: nobody sees it unlocked while its writer lives.
    let unnamed = draft.join("held.new");
    let file = std::fs::File::create(&unnamed)?;
    file.lock()?;
    std::fs::rename(unnamed, draft.join(HELD))?;
    Ok(file)
}

/// Removes drafts whose writer was killed. What cannot be read or removed does no harm.
fn remove_abandoned(parent: &Path, prefix: &str) {
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(prefix)
            && std::fs::File::open(entry.path().join(HELD)).is_ok_and(|held| held.try_lock().is_ok())
        {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Files that a run writes into its Record.
const FILES: [&str; 5] = ["record.json", "scenario.toml", "environment.json", "log.txt", "report.html"];
/// Folders of a Record.
const FOLDERS: [&str; 4] = ["series", "pcap", "plots", "logs"];
/// The pictures of a Record's report, each an SVG and a PNG file in `plots/`.
pub const PICTURES: [&str; 5] = ["throughput", "echo_delay", "echo_cdf", "call_delay", "response_time"];

/// Whether a run writes a file of this name into the Record's `folder`.
fn is_ours(folder: &str, name: &str) -> bool {
    // Left by a program that was killed while it wrote a file whole.
    let name = name.strip_prefix('.').and_then(|name| name.strip_suffix(".draft")).unwrap_or(name);
    let Some((stem, ending)) = name.rsplit_once('.') else { return false };
    let of_a_stack =
        || STACKS.iter().any(|(word, _)| stem.strip_prefix(word).is_some_and(|rest| rest.starts_with('-')));
    match (folder, ending) {
        ("", _) => FILES.contains(&name),
        ("series", "csv") | ("pcap", "pcapng") => of_a_stack(),
        ("pcap", "txt") => of_a_stack() && stem.ends_with("-keys"),
        ("plots", "svg" | "png") => PICTURES.contains(&stem),
        ("logs", "log") => true,
        _ => false,
    }
}

/// The first entry of a directory that is none of `folders` and no file in it or in them that `is_ours` (given the folder, empty
/// for the directory itself, and the name), by its path in the directory. Links belong to others.
pub fn strangers(directory: &Path, folders: &[&str], is_ours: impl Fn(&str, &str) -> bool) -> Option<PathBuf> {
    let first = |folder: &str| {
        let entries = std::fs::read_dir(directory.join(folder)).into_iter().flatten().flatten();
        let ours = |entry: &std::fs::DirEntry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            entry.file_type().is_ok_and(|kind| match kind.is_dir() {
                true => folder.is_empty() && folders.contains(&name.as_ref()),
                false => kind.is_file() && is_ours(folder, &name),
            })
        };
        let strange = entries.filter(|entry| !ours(entry)).map(|entry| Path::new(folder).join(entry.file_name()));
        strange.min()
    };
    std::iter::once("").chain(folders.iter().copied()).find_map(|folder| {
        let inside = folder.is_empty() || directory.join(folder).symlink_metadata().is_ok_and(|m| m.is_dir());
        first(folder).filter(|_| inside)
    })
}

/// The first entry of a Record's directory that no run writes, by its path in it.
pub fn foreign(record: &Path) -> Option<PathBuf> {
    strangers(record, &FOLDERS, is_ours)
}

/// Before a Record is read: puts back one that has lost its name, because a program was killed while it put another in its place.
pub fn recover_record(record: &Path) -> Result<(), RunError> {
    if record.exists() { Ok(()) } else { recover(record, "record.json", foreign) }
}

/// Refuses a directory that holds what no run wrote: a new Record there would take its place.
pub(crate) fn refuse_foreign(record: &Path) -> Result<(), RunError> {
    let Some(found) = foreign(record) else { return Ok(()) };
    let (at, found) = (record.shown(), found.shown());
    Err(RunError::Refused(format!(
        "{at} holds {found}, which no run wrote and a new record would remove: move it away, or choose another --out"
    )))
}

/// Whether files can be made in `out`, or `out` itself, before there is anything to write. Leaves nothing.
pub fn check_writable(out: &Path) -> Result<(), RunError> {
    let out = resolved(out)?;
    let absolute = std::path::absolute(&out).map_err(unwritable(&out))?;
    let Some(there) = absolute.ancestors().find(|folder| folder.exists()) else { return Ok(()) };
    let probe = there.join(format!(".wavelane-{:016x}", RandomState::new().hash_one(std::process::id())));
    std::fs::File::create_new(&probe).and_then(|_| std::fs::remove_file(&probe)).map_err(unwritable(&out))
}

/// Where a Record goes: a link is followed, so that it is not replaced by a directory.
pub fn resolved(out: &Path) -> Result<PathBuf, RunError> {
    // Without a slash at the end, which would hide the link.
    let out: PathBuf = out.components().collect();
    if !out.is_symlink() {
        return Ok(out);
    }
    out.canonicalize().map_err(|e| {
        RunError::Refused(format!(
            "{} is a symbolic link to nothing ({e}): choose another --out or remove it",
            out.shown()
        ))
    })
}

impl Draft {
    pub(crate) fn begin(out: &Path) -> Result<Self, RunError> {
        recover(out, "record.json", foreign)?;
        let out = &resolved(out)?;
        if out.file_name().is_none() {
            return Err(RunError::Refused(format!("--out {}: name a directory", out.shown())));
        }
        let entries = |dir: &Path| std::fs::read_dir(dir).map(|mut d| d.next().is_some());
        if out.exists() && !out.join("record.json").exists() && entries(out).unwrap_or(true) {
            let why = "exists and is not a record: choose another --out or remove it";
            return Err(RunError::Refused(format!("{} {why}", out.shown())));
        }
        refuse_foreign(out)?;
        let parent = out.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        std::fs::create_dir_all(parent).map_err(unwritable(parent))?;
        remove_abandoned(parent, &draft_prefix(out));
        let temporary = draft_of(out);
        std::fs::create_dir(&temporary).map_err(unwritable(&temporary))?;
        let held = hold(&temporary).map_err(unwritable(&temporary))?;
        let draft = Self { temporary, out: out.to_owned(), kept: false, _held: held };
        for folder in ["series", "pcap"] {
            let path = draft.temporary.join(folder);
            std::fs::create_dir(&path).map_err(unwritable(&path))?;
        }
        Ok(draft)
    }
    /// Writes and syncs one file; errors name the place it was to have in the Record.
    pub(crate) fn write(&self, name: &str, content: &[u8]) -> Result<(), RunError> {
        use std::io::Write;
        let path = self.temporary.join(name);
        let written = std::fs::File::create(&path).and_then(|mut f| {
            f.write_all(content)?;
            f.sync_all()
        });
        written.map_err(unwritable(&self.out.join(name)))
    }
    /// Puts it in place; an earlier Record there is replaced, and what others put there since it began is taken along.
    pub(crate) fn keep(mut self) -> Result<(), RunError> {
        // From here on nobody takes it for an abandoned draft.
        std::fs::remove_file(self.temporary.join(HELD)).map_err(unwritable(&self.temporary))?;
        self.kept = true;
        put_in_place(&self.temporary, &self.out, foreign)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.kept {
            // Nothing more can be done about a directory that cannot be removed; its name says draft.
            let _ = std::fs::remove_dir_all(&self.temporary);
        }
    }
}

#[cfg(test)]
#[path = "draft_tests.rs"]
mod tests;
