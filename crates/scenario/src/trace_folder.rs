//! Folders of recordings: which files belong to which link, and how those of other tools become such files.

use crate::trace::{Format, TRACE_FILE_MAX, delay, is_head, rate, read};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use wavelane_base::text::ShownPath;
use wavelane_base::{Ratio, Span};
use wavelane_channel::{Source, Then};

/// Most links of a folder, and most files that are looked at.
pub const LINKS_MAX: usize = 10_000;
/// Deepest folder below the named one that an import looks into.
const DEPTH_MAX: usize = 4;
/// The interval of LeoReplayer's delays.
pub const LEO_EVERY: Span = Span::from_millis(10);

/// One recorded link: `NAME.down`, `NAME.up`, `NAME.delay`, each also as `.csv` (rates) and packed (`.gz`).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RecordedLink {
    /// What its files have in common.
    pub name: String,
    /// Down, then up.
    pub rates: [Option<(PathBuf, Format)>; 2],
    /// One-way delay, a value each [`LEO_EVERY`].
    pub delay: Option<PathBuf>,
}

/// The columns of a table of seconds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Columns {
    /// Of the time: seconds, or a date with a time of day.
    pub time: String,
    /// Of the rates down and up.
    pub rates: [Option<String>; 2],
    /// What the rates count, as in the head of a recording.
    pub unit: String,
}

/// Kinds of a file by the end of its name.
const ENDS: [&str; 3] = ["down", "up", "delay"];

/// The link's name, the kind by [`ENDS`], and the format of a file of a folder of recordings.
fn recording_of(path: &Path) -> Option<(String, usize, Format)> {
    let name = path.file_name()?.to_str()?;
    let plain = name.strip_suffix(".gz").unwrap_or(name);
    let (plain, format) = match plain.strip_suffix(".csv") {
        Some(plain) => (plain, Format::Csv),
        None => (plain, Format::Mahimahi),
    };
    let (stem, end) = plain.rsplit_once('.')?;
    Some((stem.to_owned(), ENDS.iter().position(|known| *known == end)?, format))
}

/// What [`links`] passes over in a folder: files by other names, delays without a rate, folders.
pub fn unused(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let used: BTreeSet<PathBuf> =
        links(folder)?.into_iter().flat_map(|l| l.rates.into_iter().flatten().map(|r| r.0).chain(l.delay)).collect();
    let wrong = |e: std::io::Error| format!("{}: {e}; name a folder with recordings", folder.shown());
    let entries = std::fs::read_dir(folder).map_err(wrong)?.take(LINKS_MAX);
    let mut all: Vec<PathBuf> =
        entries.map(|entry| entry.map(|e| e.path())).collect::<Result<_, _>>().map_err(wrong)?;
    all.retain(|path| !used.contains(path));
    all.sort_unstable();
    Ok(all)
}

/// The recorded links of a folder, by name.
pub fn links(folder: &Path) -> Result<Vec<RecordedLink>, String> {
    let mut found: BTreeMap<String, RecordedLink> = BTreeMap::new();
    for path in files(folder, 1)? {
        let Some((stem, kind, format)) = recording_of(&path) else { continue };
        let link = found.entry(stem.clone()).or_default();
        link.name = stem;
        let taken = match kind {
            2 => link.delay.replace(path.clone()),
            way => link.rates[way].replace((path.clone(), format)).map(|(path, _)| path),
        };
        if let Some(other) = taken {
            return Err(format!("{} and {} are the same link's: keep one", other.shown(), path.shown()));
        }
    }
    found.retain(|_, link| link.rates.iter().any(Option::is_some));
    if found.is_empty() {
        return Err(format!(
            "{} holds no recording: name files NAME.down or NAME.up (also .csv, .gz), or make them by `wavelane import --links`",
            folder.shown()
        ));
    }
    Ok(found.into_values().collect())
}

/// The files below a folder, sorted, links to folders not followed.
fn files(folder: &Path, depth: usize) -> Result<Vec<PathBuf>, String> {
    let wrong = |e: std::io::Error| format!("{}: {e}; name a folder with recordings", folder.shown());
    let mut entries: Vec<std::fs::DirEntry> =
        std::fs::read_dir(folder).map_err(wrong)?.collect::<Result<_, _>>().map_err(wrong)?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    let mut found = Vec::new();
    for entry in entries {
        let kind = entry.file_type().map_err(wrong)?;
        if kind.is_dir() && depth > 1 {
            found.extend(files(&entry.path(), depth - 1)?);
        } else if entry.path().is_file() {
            found.push(entry.path());
        }
        if found.len() > LINKS_MAX {
            return Err(format!("{} holds more than {LINKS_MAX} files: name a part of it", folder.shown()));
        }
    }
    Ok(found)
}

/// Turns what lies below `folder` into recordings in `out`; what was made, by path. Mahimahi's files are known by `.down`, `.up` or an
/// end of `-down`, `_down` (`up`); LeoReplayer's by `bw_N.txt` and `delay_N.txt`; tables by `.csv`, of which `columns` are taken.
pub fn import(folder: &Path, out: &Path, columns: Option<&Columns>) -> Result<Vec<PathBuf>, String> {
    let mut made: BTreeMap<PathBuf, PathBuf> = BTreeMap::new();
    std::fs::create_dir_all(out).map_err(|e| format!("{}: {e}; name another --out", out.shown()))?;
    for path in files(folder, DEPTH_MAX)? {
        let within = path.strip_prefix(folder).unwrap_or(&path).to_string_lossy().replace(['/', ' '], "-");
        let plain = within.strip_suffix(".gz").unwrap_or(&within).to_owned();
        let said = |why: String| format!("{}: {why}", path.shown());
        let mut put = |name: String, text: &str| -> Result<(), String> {
            let to = out.join(format!("{name}.gz"));
            if let Some(other) = made.insert(to.clone(), path.clone()) {
                return Err(format!("{} and {} would both be {}", other.shown(), path.shown(), to.shown()));
            }
            replace(&to, &packed(text)).map_err(|e| format!("{}: {e}; name another --out", to.shown()))
        };
        if let Some(table) = plain.strip_suffix(".csv") {
            let (text, source) = read(&path).map_err(said)?;
            let is_rate = |text: &str| rate(text, source.clone(), Format::Csv, Ratio::ONE, Then::Wrap).map(drop);
            let (name, of) = kind_of(table).map_or((table.to_owned(), None), |(name, end)| (name, Some(end)));
            // One that is a recording already.
            if let Some(end) = of.filter(|_| is_head(text.lines().next().unwrap_or_default())) {
                is_rate(&text).map_err(said)?;
                put(format!("{name}.{end}.csv"), &text)?;
                continue;
            }
            for (way, end) in ENDS[..2].iter().enumerate() {
                if let Some(text) = seconds_of(&text, columns, way).map_err(said)? {
                    is_rate(&text).map_err(said)?;
                    let name = if of == Some(end) { name.as_str() } else { table };
                    put(format!("{name}.{end}.csv"), &text)?;
                }
            }
        } else if let Some((name, end)) = kind_of(&plain) {
            let (text, source) = read(&path).map_err(said)?;
            checked(&text, source, end).map_err(said)?;
            put(format!("{name}.{end}"), &text)?;
        }
    }
    if made.is_empty() {
        return Err(format!(
            "{} holds nothing of Mahimahi (NAME.down, NAME.up), LeoReplayer (bw_N.txt, delay_N.txt) or a table (.csv)",
            folder.shown()
        ));
    }
    Ok(made.into_keys().collect())
}

/// Writes a file anew, or in place of one of an earlier import. No link is followed: what stands there must be a plain file, and the new
/// one takes its place.
fn replace(to: &Path, bytes: &[u8]) -> std::io::Result<()> {
    match to.symlink_metadata() {
        Ok(found) if !found.is_file() => return Err(std::io::Error::other("it is there and no plain file")),
        _ => {}
    }
    let name = to.file_name().unwrap_or_default().to_string_lossy();
    let draft = to.with_file_name(format!(".{name}.{}.part", std::process::id()));
    let written = std::fs::OpenOptions::new().write(true).create_new(true).open(&draft);
    let mut file = written?;
    let done = file.write_all(bytes).and_then(|()| std::fs::rename(&draft, to));
    if done.is_err() {
        let _ = std::fs::remove_file(&draft);
    }
    done
}

fn checked(text: &str, source: Source, end: &str) -> Result<(), String> {
    match end {
        "delay" => delay(text, source, LEO_EVERY, Then::Wrap).map(drop),
        _ => rate(text, source, Format::Mahimahi, Ratio::ONE, Then::Wrap).map(drop),
    }
}

/// The link's name and the kind of a file of Mahimahi or LeoReplayer, from its path with dashes.
fn kind_of(plain: &str) -> Option<(String, &'static str)> {
    if let Some(stem) = plain.strip_suffix(".txt") {
        let (start, file) = stem.rsplit_once('-').map_or(("", stem), |(start, file)| (start, file));
        for (word, end) in [("bw_", "down"), ("delay_", "delay")] {
            if let Some(number) = file.strip_prefix(word) {
                let start = if start.is_empty() { String::new() } else { format!("{start}-") };
                return Some((format!("{start}{number}"), end));
            }
        }
    }
    let stem = plain.strip_suffix(".txt").unwrap_or(plain);
    for end in ENDS {
        for mark in ['.', '-', '_'] {
            if let Some(name) = stem.strip_suffix(&format!("{mark}{end}")).filter(|name| !name.is_empty()) {
                return Some((name.to_owned(), end));
            }
        }
    }
    None
}

/// The recording of one way in a table, if it has that column.
fn seconds_of(text: &str, columns: Option<&Columns>, way: usize) -> Result<Option<String>, String> {
    let head: Vec<&str> = text.lines().next().unwrap_or_default().split(',').map(str::trim).collect();
    let Some(columns) = columns else {
        return Err(format!("say --time, --down or --up, and --unit; its columns are {}", head.join(", ")));
    };
    let place = |name: &str| {
        let found = head.iter().position(|column| *column == name);
        found.ok_or_else(|| format!("line 1: it has no column '{name}': name one of {}", head.join(", ")))
    };
    let Some(rate) = &columns.rates[way] else { return Ok(None) };
    let (time, rate) = (place(&columns.time)?, place(rate)?);
    let mut out = format!("seconds,{}\n", columns.unit);
    for (number, line) in text.lines().enumerate().skip(1) {
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        let cell = |at: usize| cells.get(at).copied().filter(|cell| !cell.is_empty());
        let (Some(at), Some(value)) = (cell(time).and_then(unix_seconds), cell(rate)) else {
            return Err(format!("line {}: no time, or no rate: correct the line, or take it out", number + 1));
        };
        out += &format!("{at},{value}\n");
        if out.len() as u64 > TRACE_FILE_MAX {
            return Err("it is too long: cut it".into());
        }
    }
    Ok(Some(out))
}

/// Seconds as they are, or of `2024-04-19 16:23:00.25` (also with a `T`, and a `Z` behind), since 1970.
fn unix_seconds(text: &str) -> Option<String> {
    let Some((date, time)) = text.split_once([' ', 'T']) else { return Some(text.to_owned()) };
    let number = |text: &str| text.parse::<i64>().ok().filter(|n| (0..=9_999).contains(n));
    let [year, month, day] = numbers(date.splitn(3, '-').map(number))?;
    let time = time.strip_suffix('Z').unwrap_or(time);
    let (clock, part) = time.split_once('.').unwrap_or((time, "0"));
    let [hour, minute, second] = numbers(clock.splitn(3, ':').map(number))?;
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Days since 1970 in the Gregorian calendar, years counted from March.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1 - 719_468;
    Some(format!("{}.{part}", days * 86_400 + hour * 3_600 + minute * 60 + second))
}

fn numbers(words: impl Iterator<Item = Option<i64>>) -> Option<[i64; 3]> {
    words.collect::<Option<Vec<_>>>()?.try_into().ok()
}

fn packed(text: &str) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    // Writing into memory does not fail.
    let _ = out.write_all(text.as_bytes());
    out.finish().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn place(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("wavelane-links-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(path.join("in/A/7")).unwrap();
        path
    }

    #[test]
    fn recordings_of_three_kinds_become_links() {
        let place = place("three");
        let write = |name: &str, text: &str| std::fs::write(place.join("in").join(name), text).unwrap();
        write("Verizon-LTE.down", "1\n2\n");
        write("Verizon-LTE.up", "3\n");
        write("A/7/bw_7.txt", "0\n1\n1\n");
        write("A/7/delay_7.txt", "24\n18\n");
        write("A/7/notes.txt", "not a recording");
        write("car.csv", "start,dl,ul\n2024-04-19 16:23:00.25,2.5,1\n2024-04-19 16:23:01.25,0.5,1\n");
        let rates = [Some("dl".to_owned()), None];
        let columns = Columns { time: "start".into(), rates, unit: "Mbit/s".into() };
        let (from, to) = (place.join("in"), place.join("out"));
        let made = import(&from, &to, Some(&columns)).unwrap();
        let names: Vec<_> = made.iter().map(|p| p.file_name().unwrap().to_str().unwrap()).collect();
        let wanted = ["A-7-7.delay.gz", "A-7-7.down.gz", "Verizon-LTE.down.gz", "Verizon-LTE.up.gz", "car.down.csv.gz"];
        assert_eq!(names, wanted);
        let links = links(&to).unwrap();
        assert_eq!(links.iter().map(|l| l.name.as_str()).collect::<Vec<_>>(), ["A-7-7", "Verizon-LTE", "car"]);
        assert!(links[0].delay.is_some() && links[1].rates[1].is_some() && links[2].rates[1].is_none());
        let (text, _) = read(&links[2].rates[0].as_ref().unwrap().0).unwrap();
        assert_eq!(text, "seconds,Mbit/s\n1713543780.25,2.5\n1713543781.25,0.5\n");
        let said = import(&from, &to, None).unwrap_err();
        assert!(said.contains("car.csv") && said.contains("its columns are start, dl, ul"), "{said}");
        write("Verizon-LTE.up", "3\nx\n");
        let said = import(&from, &to, Some(&columns)).unwrap_err();
        assert!(said.contains("Verizon-LTE.up: line 2: 'x' is not a whole number"), "{said}");
        std::fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn tables_that_are_recordings_keep_their_names_and_links_are_not_followed() {
        let place = place("again");
        let write = |name: &str, text: &str| std::fs::write(place.join("in").join(name), text).unwrap();
        let (from, to) = (place.join("in"), place.join("out"));
        write("car.down.csv", "seconds,Mbit/s\n0,1\n1,2\n");
        let named = |made: Vec<PathBuf>| -> Vec<String> {
            made.iter().map(|p| p.file_name().unwrap().to_str().unwrap().to_owned()).collect()
        };
        assert_eq!(named(import(&from, &to, None).unwrap()), ["car.down.csv.gz"]);
        // Of another head, the column is taken under the name that the file has.
        write("car.down.csv", "t,dl,ul\n0,1,5\n1,2,5\n");
        let rates = [Some("dl".to_owned()), Some("ul".to_owned())];
        let columns = Columns { time: "t".into(), rates, unit: "Mbit/s".into() };
        assert_eq!(named(import(&from, &to, Some(&columns)).unwrap()), ["car.down.csv.gz", "car.down.up.csv.gz"]);
        let precious = place.join("precious");
        std::fs::write(&precious, "mine").unwrap();
        std::fs::remove_file(to.join("car.down.csv.gz")).unwrap();
        std::os::unix::fs::symlink(&precious, to.join("car.down.csv.gz")).unwrap();
        let said = import(&from, &to, Some(&columns)).unwrap_err();
        assert!(said.contains("car.down.csv.gz: it is there and no plain file; name another --out"), "{said}");
        assert_eq!(std::fs::read_to_string(&precious).unwrap(), "mine");
        std::fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn what_a_folder_holds_besides_recordings_is_named() {
        let place = place("unused");
        for name in ["x.down", "x.delay", "y.delay", "notes.txt", "z.Down"] {
            std::fs::write(place.join("in").join(name), "1\n").unwrap();
        }
        let names: Vec<String> = unused(&place.join("in"))
            .unwrap()
            .iter()
            .map(|p| p.file_name().unwrap().to_str().unwrap().to_owned())
            .collect();
        assert_eq!(names, ["A", "notes.txt", "y.delay", "z.Down"]);
        std::fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn folders_without_links_are_refused() {
        let place = place("none");
        assert!(links(&place.join("gone")).unwrap_err().contains("name a folder with recordings"));
        assert!(links(&place.join("in")).unwrap_err().contains("holds no recording"));
        assert!(import(&place.join("in"), &place.join("out"), None).unwrap_err().contains("holds nothing of Mahimahi"));
        for name in ["x.down", "x.down.gz"] {
            std::fs::write(place.join("in").join(name), "1\n").unwrap();
        }
        assert!(links(&place.join("in")).unwrap_err().contains("keep one"));
        std::fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn dates_become_seconds() {
        assert_eq!(unix_seconds("1970-01-01T00:00:01Z").unwrap(), "1.0");
        assert_eq!(unix_seconds("2024-02-29 12:00:00.5").unwrap(), "1709208000.5");
        assert_eq!(unix_seconds("12.5").unwrap(), "12.5");
        assert_eq!(unix_seconds("2024-13-01 00:00:00"), None);
    }
}
