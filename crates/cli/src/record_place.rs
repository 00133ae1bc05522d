//! Where a measurement's or an import's record goes, and how it gets there whole.

use crate::Failure;
use std::path::{Path, PathBuf};
use wavelane_base::text::ShownPath;

/// Characters of what a record is of in its name.
const NAME_MAX: usize = 80;
/// Records of one thing that are told apart by their number.
const RECORDS_MAX: u32 = 100_000;

/// What a kind of record is known by.
pub(crate) struct RecordKind {
    /// The file that makes a directory one.
    pub(crate) document: &'static str,
    /// Which command writes it: a word in its name.
    pub(crate) by: &'static str,
    /// Whether it writes such a file into such a folder: the record's own (""), series or plots.
    pub(crate) ours: fn(folder: &str, name: &str) -> bool,
}

/// Where the record will be.
pub(crate) struct Place {
    path: PathBuf,
    /// Whether this program made the folder, to keep its number from others.
    reserved: bool,
    kind: &'static RecordKind,
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.reserved {
            // A folder that holds the record stays.
            let _ = std::fs::remove_dir(&self.path);
        }
    }
}

/// Where the record of `what` will be; refused before anything is done if something else is there.
pub(crate) fn place(what: &str, out: Option<&Path>, kind: &'static RecordKind) -> Result<Place, Failure> {
    let Some(place) = out else { return free(Path::new("records"), what, kind) };
    wavelane_run::recover(place, kind.document, |place| foreign(place, kind)).map_err(Failure::refused)?;
    let empty = place.read_dir().is_ok_and(|mut entries| entries.next().is_none());
    if place.exists() && !empty && !place.join(kind.document).exists() {
        let (place, by) = (place.shown(), kind.by);
        return Err(Failure::refused(format!(
            "{place} exists and is no {by}'s record: choose another place with --out"
        )));
    }
    if let Some(found) = foreign(place, kind) {
        let (place, found, by) = (place.shown(), found.shown(), kind.by);
        return Err(Failure::refused(format!(
            "{place} holds {found}, which no {by} wrote and a new record would remove: move it away, or choose another --out"
        )));
    }
    wavelane_run::check_writable(place).map_err(Failure::refused)?;
    let path = wavelane_run::resolved(place).map_err(Failure::refused)?;
    // The record is written beside its place first.
    let beside = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    wavelane_run::check_writable(beside).map_err(Failure::refused)?;
    Ok(Place { path, reserved: false, kind })
}

/// The first entry of a record's directory that such a record does not have.
fn foreign(place: &Path, kind: &RecordKind) -> Option<PathBuf> {
    wavelane_run::strangers(place, &["series", "plots"], kind.ours)
}

/// The first number that is free, kept from others that look for one at the same time.
fn free(records: &Path, what: &str, kind: &'static RecordKind) -> Result<Place, Failure> {
    let unwritable = |path: &Path, e: std::io::Error| {
        let path = path.shown();
        Failure::refused(format!("cannot write {path}: {e}; use --out with a writable folder that has free space"))
    };
    let name: String =
        what.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).take(NAME_MAX).collect();
    std::fs::create_dir_all(records).map_err(|e| unwritable(records, e))?;
    for number in 1..RECORDS_MAX {
        let path = records.join(format!("{}-{name}-{number}", kind.by));
        // A killed program may have left this number without its folder; what cannot be put back is of another number then.
        let recover = || wavelane_run::recover(&path, kind.document, |place| foreign(place, kind));
        if !path.exists() && recover().is_err() {
            continue;
        }
        match std::fs::create_dir(&path) {
            // The folder was free because a living program has moved it aside and is about to put another there, or has just done so.
            Ok(()) if wavelane_run::is_replaced(&path) || path.read_dir().is_ok_and(|mut all| all.next().is_some()) => {
                let _ = std::fs::remove_dir(&path);
            }
            Ok(()) => return Ok(Place { path, reserved: true, kind }),
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(unwritable(&path, e)),
        }
    }
    Err(Failure::refused("there are too many records of this: choose a place with --out"))
}

impl Place {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Lets `write` fill a directory beside the place, and puts it there once it is whole.
    pub(crate) fn keep(&self, write: impl FnOnce(&Path) -> Result<(), String>) -> Result<(), Failure> {
        let place = self.path.as_path();
        let draft = wavelane_run::draft_of(place);
        let parent = place.parent().filter(|parent| !parent.as_os_str().is_empty());
        let made = parent.map_or(Ok(()), std::fs::create_dir_all).and_then(|()| std::fs::create_dir(&draft));
        made.map_err(|e| e.to_string()).and_then(|()| write(&draft)).map_err(|why| {
            let _ = std::fs::remove_dir_all(&draft);
            let place = place.shown();
            Failure::refused(format!(
                "cannot write {place}: {why}; use --out with a writable folder that has free space"
            ))
        })?;
        wavelane_run::put_in_place(&draft, place, |place| foreign(place, self.kind)).map_err(Failure::refused)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    const KIND: RecordKind = RecordKind { document: "probe.json", by: "probe", ours: |_, _| true };

    #[test]
    fn two_probes_of_one_target_have_a_number_each() {
        let records = std::env::temp_dir().join(format!("wavelane-numbers-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&records);
        let at_once: Vec<_> = std::thread::scope(|scope| {
            let one = || free(&records, "192.0.2.7:1", &KIND).ok().unwrap();
            let all: Vec<_> = (0..8).map(|_| scope.spawn(one)).collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        });
        let name = |place: &Place| place.path.file_name().unwrap().to_string_lossy().into_owned();
        let mut names: Vec<String> = at_once.iter().map(name).collect();
        names.sort();
        let wanted: Vec<String> = (1..=8).map(|n| format!("probe-192.0.2.7-1-{n}")).collect();
        assert_eq!(names, wanted);
        // One measured, the others did not.
        std::fs::write(at_once[0].path.join("probe.json"), "{}").unwrap();
        let kept = at_once[0].path.clone();
        drop(at_once);
        assert_eq!(std::fs::read_dir(&records).unwrap().flatten().map(|e| e.path()).collect::<Vec<_>>(), [kept]);
        std::fs::remove_dir_all(&records).unwrap();
    }

    #[test]
    fn a_number_whose_record_is_being_replaced_is_taken() {
        let records = std::env::temp_dir().join(format!("wavelane-replaced-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&records);
        // A living program between its two renames.
        let earlier = records.join(".probe-home-1.earlier-0123456789abcdef");
        std::fs::create_dir_all(&earlier).unwrap();
        std::fs::write(earlier.join("probe.json"), "{}").unwrap();
        let living = std::fs::File::open(&earlier).unwrap();
        living.lock().unwrap();
        let place = free(&records, "home", &KIND).ok().unwrap();
        assert_eq!(place.path, records.join("probe-home-2"));
        assert!(!records.join("probe-home-1").exists() && earlier.exists());
        std::fs::remove_dir_all(&records).unwrap();
    }
}
