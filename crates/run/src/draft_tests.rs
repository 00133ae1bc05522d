#![allow(clippy::unwrap_used, reason = "tests")]
use super::*;

struct Place(PathBuf);
impl Place {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("wavelane-draft-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }
    /// A record, as if a run had written it.
    fn record(&self) -> PathBuf {
        let draft = Draft::begin(&self.0.join("r")).unwrap();
        for name in ["record.json", "log.txt", "series/wavelane-page.csv", "pcap/tcp-bbr+rts-2-keys.txt"] {
            draft.write(name, b"1").unwrap();
        }
        draft.keep().unwrap();
        self.0.join("r")
    }
}
impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn files_of_others_in_a_record_are_never_removed() {
    let place = Place::new("others");
    let record = place.record();
    assert_eq!(foreign(&record), None);
    for name in ["notes.md", "series/mine.csv", "pcap/wavelane-page.csv", "plots/my.png", "data/x", "series/deep/x"] {
        let path = record.join(name);
        let folder = path.parent().unwrap();
        let made = !folder.exists();
        std::fs::create_dir_all(folder).unwrap();
        std::fs::write(&path, "years").unwrap();
        let error = Draft::begin(&record).err().unwrap().to_string();
        let first = name.split('/').next().unwrap();
        assert!(error.contains(&format!("r holds {first}")) && error.contains("move it away"), "{name}: {error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "years", "{name}");
        std::fs::remove_file(&path).unwrap();
        if made {
            std::fs::remove_dir(folder).unwrap();
        }
    }
    std::fs::remove_file(record.join("log.txt")).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", record.join("log.txt")).unwrap();
    assert!(Draft::begin(&record).is_err(), "a link that somebody made");
}

#[test]
fn what_others_put_there_during_a_run_is_taken_along() {
    let place = Place::new("along");
    let record = place.record();
    let draft = Draft::begin(&record).unwrap();
    draft.write("record.json", b"2").unwrap();
    std::fs::write(record.join("notes.md"), "years").unwrap();
    std::fs::write(record.join("series/mine.csv"), "years").unwrap();
    draft.keep().unwrap();
    let read = |name: &str| std::fs::read_to_string(record.join(name)).unwrap_or_default();
    assert_eq!(
        (read("record.json"), read("notes.md"), read("series/mine.csv")),
        ("2".into(), "years".into(), "years".into())
    );
    assert!(!record.join("log.txt").exists(), "a file of the earlier record");
}

#[test]
fn nothing_is_lost_where_a_file_of_others_cannot_be_taken_along() {
    let place = Place::new("stuck");
    let record = place.record();
    let draft = Draft::begin(&record).unwrap();
    draft.write("record.json", b"2").unwrap();
    draft.write("log.txt", b"new").unwrap();
    std::fs::write(record.join("aaa.txt"), "years").unwrap();
    std::fs::remove_file(record.join("log.txt")).ok();
    std::os::unix::fs::symlink("aaa.txt", record.join("log.txt")).unwrap();
    let error = draft.keep().unwrap_err().to_string();
    assert!(error.contains("log.txt, which no run wrote, cannot be moved there"), "{error}");
    let read = |name: &str| std::fs::read_to_string(record.join(name)).unwrap_or_default();
    assert_eq!((read("record.json"), read("aaa.txt"), read("log.txt")), ("2".into(), "years".into(), "new".into()));
    let beside = std::fs::read_dir(&place.0).unwrap().flatten().find(|e| e.path() != record).unwrap().path();
    assert!(beside.join("log.txt").is_symlink(), "{}", beside.display());
}

#[test]
fn a_record_that_cannot_be_put_in_place_stays_whole() {
    let place = Place::new("file");
    let out = place.0.join("r");
    let draft = Draft::begin(&out).unwrap();
    draft.write("record.json", b"2").unwrap();
    let temporary = draft.temporary.clone();
    std::fs::write(&out, "a file meanwhile").unwrap();
    // A directory takes no file's place.
    let _ = std::fs::create_dir(crate::whole::earlier_of(&draft.temporary));
    std::fs::write(crate::whole::earlier_of(&draft.temporary).join("full"), "").unwrap();
    let error = draft.keep().unwrap_err().to_string();
    assert!(error.contains("it is whole in"), "{error}");
    assert_eq!(std::fs::read_to_string(temporary.join("record.json")).unwrap(), "2");
    assert_eq!(std::fs::read_to_string(&out).unwrap(), "a file meanwhile");
}

#[test]
fn a_link_is_followed_and_stays() {
    let place = Place::new("link");
    let record = place.record();
    let link = place.0.join("link");
    std::os::unix::fs::symlink(&record, &link).unwrap();
    let mut slash = link.clone().into_os_string();
    slash.push("/");
    for (out, content) in [(link.clone(), "3"), (slash.into(), "4")] {
        let draft = Draft::begin(&out).unwrap();
        draft.write("record.json", content.as_bytes()).unwrap();
        draft.keep().unwrap();
        assert!(link.is_symlink() && !record.is_symlink());
        assert_eq!(std::fs::read_to_string(record.join("record.json")).unwrap(), content);
    }
    std::fs::remove_dir_all(&record).unwrap();
    let error = Draft::begin(&link).err().unwrap().to_string();
    assert!(error.contains("symbolic link to nothing"), "{error}");
}

#[test]
fn only_drafts_of_dead_programs_are_removed() {
    let place = Place::new("abandoned");
    let draft = |name: &str| place.0.join(format!(".r.draft-{name}"));
    let (killed, other, writing) =
        (draft("1"), place.0.join(".rest.draft-1"), Draft::begin(&place.0.join("r")).unwrap());
    for dir in [&killed, &other] {
        std::fs::create_dir_all(dir.join("series")).unwrap();
        drop(hold(dir).unwrap());
    }
    let second = Draft::begin(&place.0.join("r")).unwrap();
    assert!(!killed.exists() && other.exists() && writing.temporary.exists());
    assert_ne!(second.temporary, writing.temporary);
    second.write("record.json", b"{}").unwrap();
    second.keep().unwrap();
    let names: Vec<_> = std::fs::read_dir(place.0.join("r")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(names.len() == 3 && !names.contains(&HELD.into()), "{names:?}");
}

#[test]
fn a_full_disk_is_one_line_and_no_record() {
    let place = Place::new("full");
    let draft = Draft::begin(&place.0.join("r")).unwrap();
    std::os::unix::fs::symlink("/dev/full", draft.temporary.join("record.json")).unwrap();
    let error = draft.write("record.json", b"{}").unwrap_err().to_string();
    assert!(error.contains("r/record.json: No space left on device"), "{error}");
    assert!(error.ends_with("use --out with a writable folder that has free space"), "{error}");
    drop(draft);
    assert_eq!(std::fs::read_dir(&place.0).unwrap().count(), 0);
}
