//! Tables of the studies' committed results: `docs/results/ID.json` rendered between the marks of README and guide, so that no page can
//! disagree with a result or with another page.

use crate::render::{self, Page};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(crate) const USAGE: &str = "       cargo xtask results [--check] [FILE...]  takes studies' ID.json into docs/results and renders README's and the guide's tables";
/// Where the results are, and the list of what is shown of each.
const FOLDER: &str = "docs/results";
const LIST: &str = "docs/results/rows.toml";
/// The pages with marks.
const PAGES: &[&str] = &["README.md", "docs/guide/studies.md"];
/// Format of a study's document.
const FORMAT: &str = "wavelane-study/1";
/// Largest document that is committed whole; of a larger one only judged rows are kept.
const WHOLE_MAX: usize = 200_000;
/// Largest document that is read.
const DOCUMENT_MAX: u64 = 64 << 20;
/// What to do about a page that differs.
pub(crate) const REMEDY: &str = "run `cargo xtask results`, and change figures in docs/results only";
/// Marks around what is rendered.
const BEGIN: &str = "<!-- results: ";
const END: &str = "<!-- end -->";

/// The command: with `--check` it says which pages differ, else it takes `files` and renders.
pub(crate) fn command(root: &Path, files: &[&str]) -> ExitCode {
    let done = match files {
        ["--check"] => stale(root).map(|stale| {
            stale.iter().for_each(|(path, _)| eprintln!("results: {path} differs; {REMEDY}"));
            stale.is_empty()
        }),
        files if files.iter().any(|file| file.starts_with('-')) => Err(format!("unknown option; usage:\n{USAGE}")),
        files => files.iter().try_for_each(|file| take(root, Path::new(file)).map(drop)).and_then(|()| {
            write(root)?.iter().for_each(|path| println!("results: {path} written"));
            Ok(true)
        }),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("results: {error}");
            ExitCode::from(2)
        }
    }
}

/// Renders all pages and writes those that differ; their names.
fn write(root: &Path) -> Result<Vec<&'static str>, String> {
    let stale = stale(root)?;
    for (path, text) in &stale {
        std::fs::write(root.join(path), text).map_err(|e| format!("cannot write {path}: {e}"))?;
    }
    Ok(stale.into_iter().map(|(path, _)| path).collect())
}

/// The pages that differ from what the results say, with the text that they should have.
pub(crate) fn stale(root: &Path) -> Result<Vec<(&'static str, String)>, String> {
    let studies = studies(root)?;
    let mut stale = Vec::new();
    for &path in PAGES {
        let before = read(&root.join(path))?;
        let place = if path.starts_with("docs/") { Page::Guide } else { Page::Readme };
        let after =
            filled(&before, BEGIN, &|name| render::block(name, &studies, place)).map_err(|e| format!("{path}: {e}"))?;
        if after != before {
            stale.push((path, after));
        }
    }
    Ok(stale)
}

/// Copies a study's document into the folder of results, one row a line, so that a change of a row is a change of a line.
fn take(root: &Path, file: &Path) -> Result<PathBuf, String> {
    let document = document(file)?;
    let id = document["study"].as_str().expect("checked when it was read");
    if !studies(root)?.iter().any(|study| study.id == id) {
        return Err(format!("{LIST} has no study `{id}`: add a table for it"));
    }
    let to = root.join(FOLDER).join(format!("{id}.json"));
    let mut text = lines(&document);
    if text.len() > WHOLE_MAX {
        text = lines(&judged(document));
    }
    std::fs::write(&to, text).map_err(|e| format!("cannot write {}: {e}", to.display()))?;
    Ok(to)
}

/// The document without the rows that are reported only, and with their number.
fn judged(mut document: Value) -> Value {
    let rows = document["rows"].as_array_mut().expect("checked when it was read");
    let all = rows.len();
    rows.retain(|row| row["verdict"] != "info");
    let omitted = all - rows.len();
    document["omitted_rows"] = omitted.into();
    document
}

/// A document as text, each row on a line of its own.
fn lines(document: &Value) -> String {
    let fields = document.as_object().expect("checked when it was read");
    let heads = fields.iter().filter(|(key, _)| *key != "rows").map(|(key, value)| format!("  \"{key}\": {value},\n"));
    let rows = document["rows"].as_array().expect("checked when it was read");
    let rows: Vec<String> = rows.iter().map(|row| format!("    {row}")).collect();
    format!("{{\n{}  \"rows\": [\n{}\n  ]\n}}\n", heads.collect::<String>(), rows.join(",\n"))
}

/// The studies of the list, each with its result if one is committed.
fn studies(root: &Path) -> Result<Vec<render::Study>, String> {
    let list: toml::Table = read(&root.join(LIST))?.parse().map_err(|e| format!("{LIST}: {e}"))?;
    let tables = list.get("study").and_then(toml::Value::as_array).ok_or(format!("{LIST}: no [[study]]"))?;
    tables
        .iter()
        .map(|table| {
            let mut study = render::Study::parse(table).map_err(|e| format!("{LIST}: {e}"))?;
            let file = root.join(FOLDER).join(format!("{}.json", study.id));
            if file.exists() {
                let document = document(&file)?;
                if document["study"] != study.id.as_str() {
                    return Err(format!("{} is of study {}; name it after that", file.display(), document["study"]));
                }
                study.document = Some(document);
            }
            Ok(study)
        })
        .collect()
}

/// Reads a study's document and checks what the rest relies on.
fn document(file: &Path) -> Result<Value, String> {
    let wrong = |what: &str| format!("{}: {what}; it must be the ID.json of `wavelane study run`", file.display());
    let document: Value = serde_json::from_str(&read(file)?).map_err(|e| wrong(&e.to_string()))?;
    if document["format"] != FORMAT {
        return Err(wrong(&format!("its format is not {FORMAT}")));
    }
    let texts = ["study", "edition", "verdict"].iter().all(|key| document[key].is_string());
    let rows = document["rows"].as_array().ok_or_else(|| wrong("it has no rows"))?;
    let complete = |row: &Value| {
        ["metric", "stack", "unit", "verdict", "why"].iter().all(|key| row[key].is_string()) && row["case"].is_object()
    };
    (texts && rows.iter().all(complete)).then_some(()).ok_or_else(|| wrong("a field is missing"))?;
    let name = document["study"].as_str().unwrap_or_default();
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-') {
        return Err(wrong("its study is no id"));
    }
    Ok(document)
}

pub(crate) fn read(file: &Path) -> Result<String, String> {
    let size = std::fs::metadata(file).map_err(|e| format!("cannot read {}: {e}", file.display()))?.len();
    if size > DOCUMENT_MAX {
        return Err(format!("{} has {size} bytes, more than {DOCUMENT_MAX}", file.display()));
    }
    std::fs::read_to_string(file).map_err(|e| format!("cannot read {}: {e}", file.display()))
}

/// The page with each block's text between its marks.
pub(crate) fn filled(
    page: &str,
    begin: &str,
    block: &dyn Fn(&str) -> Result<String, String>,
) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = page;
    while let Some(at) = rest.find(begin) {
        let (before, after) = rest.split_at(at);
        let (mark, after) = after.split_once('\n').ok_or("a mark is the last line")?;
        let name = mark.strip_prefix(begin).and_then(|m| m.strip_suffix(" -->")).ok_or(format!("no mark: {mark}"))?;
        let (old, after) = after.split_once(END).ok_or(format!("`{mark}` has no `{END}`"))?;
        if old.contains(begin) {
            return Err(format!("`{mark}` has no `{END}` before the next mark"));
        }
        out += &format!("{before}{mark}\n{}{END}", block(name)?);
        rest = after;
    }
    Ok(out + rest)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_stands_between_marks_changes() {
        let page = "a\n<!-- results: x -->\nold\n<!-- end -->\nb\n<!-- results: y -->\n<!-- end -->\nc\n";
        let new = filled(page, BEGIN, &|name| Ok(format!("new {name}\n"))).unwrap();
        let wanted = "a\n<!-- results: x -->\nnew x\n<!-- end -->\nb\n<!-- results: y -->\nnew y\n<!-- end -->\nc\n";
        assert_eq!(new, wanted);
        assert_eq!(filled(&new, BEGIN, &|name| Ok(format!("new {name}\n"))).unwrap(), new);
        assert!(
            filled("<!-- results: x -->\na\n<!-- results: y -->\n<!-- end -->\n", BEGIN, &|_| Ok(String::new()))
                .is_err()
        );
        assert!(
            filled("<!-- results: x -->\na\n", BEGIN, &|_| Ok(String::new())).unwrap_err().contains("<!-- end -->")
        );
    }

    #[test]
    fn a_large_document_keeps_its_judged_rows_and_says_how_many_are_left_out() {
        let row = |verdict: &str| json!({"metric": "m", "verdict": verdict});
        let whole = json!({"study": "x", "rows": [row("info"), row("pass"), row("info"), row("fail")]});
        let less = judged(whole.clone());
        assert_eq!((less["rows"].as_array().unwrap().len(), &less["omitted_rows"]), (2, &json!(2)));
        let text = lines(&whole);
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), whole);
        assert_eq!(text.lines().filter(|line| line.contains("verdict")).count(), 4);
    }

    #[test]
    fn every_result_and_every_list_entry_of_the_tree_can_be_read() {
        let studies = studies(&crate::root()).unwrap();
        assert!(studies.len() > 10);
        for study in &studies {
            assert!(render::block(&study.id, std::slice::from_ref(study), Page::Guide).is_ok(), "{}", study.id);
        }
    }
}
