//! `wavelane study show` and `list`: what a study asks, how it is run, and what came out. The guide's text is the one there is.

use std::fmt::Write;
use wavelane_study::Study;

/// The guide, whose sections are named after the studies.
const GUIDE: &str = include_str!("../../../docs/guide/studies.md");
/// Columns of running text on a terminal.
const COLUMNS: usize = 100;

/// Lines of the list, in columns; folded for a terminal, what a study is about stands on lines of its own.
pub(crate) fn list(studies: &[Study], is_folded: bool) -> String {
    let places: Vec<String> = studies.iter().map(Study::places).collect();
    let widest = |of: &mut dyn Iterator<Item = usize>| of.max().unwrap_or(0);
    let ids = widest(&mut studies.iter().map(|s| s.id.len()));
    let place = widest(&mut places.iter().map(String::len));
    let times = [0, 1].map(|i| widest(&mut studies.iter().map(|s| s.takes[i].len())));
    let mut out = String::new();
    let [quickest, longest] = times;
    for (Study { id, about, takes: [quick, full], .. }, at) in studies.iter().zip(&places) {
        let _ = write!(out, "{id:<ids$}  on {at:<place$}  quick {quick:<quickest$}  full {full:<longest$}");
        let _ = match is_folded {
            true => writeln!(out, "\n  {}", wrapped(about, 2)),
            false => writeln!(out, "  {about}"),
        };
    }
    out
}

/// Everything about one study.
pub(crate) fn show(study: &Study) -> String {
    let mut out = format!("{}: {}\n\n", study.id, study.about);
    let [quick, full] = study.takes;
    let _ = writeln!(out, "runs on    {}", study.places());
    let _ = writeln!(out, "takes      quick {quick}, full {full} (--full)");
    let none = |all: &[&str], word: &str| if all.is_empty() { word.to_owned() } else { all.join(", ") };
    let _ = writeln!(out, "--part     {}", none(study.parts, "it has none"));
    if !study.stacks.is_empty() {
        let _ = writeln!(out, "--stack    {}", study.stacks.join(", "));
    }
    if study.has_draws() {
        out.push_str("--draws    A..B, both counted: these of its random links or networks\n");
    }
    let _ = writeln!(out, "run it     wavelane study run {}", study.id);
    if let Some(verdict) = verdict(study.id) {
        let _ = writeln!(out, "{}", wrapped(&format!("verdict {}", plain(verdict)), 11).replacen(' ', "    ", 1));
    }
    let _ = write!(out, "\n{}", text(section(study.id)));
    out
}

/// How the guide's table says it was judged. What came out is in the section.
fn verdict(id: &str) -> Option<&'static str> {
    let row = GUIDE.lines().find(|line| line.starts_with(&format!("| [`{id}`]")))?;
    row.trim_matches('|').split(" | ").nth(2).map(str::trim)
}

/// The guide's section of a study.
fn section(id: &str) -> &'static str {
    let head = format!("\n## `{id}`\n");
    let rest = GUIDE.find(&head).map_or("", |at| &GUIDE[at + head.len()..]);
    rest.split("\n## ").next().unwrap_or_default().trim()
}

/// Markdown without links and marks of code and of bold text.
fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('[') {
        out += before;
        let link = after.split_once("](").and_then(|(words, after)| Some((words, after.split_once(')')?.1)));
        rest = match link {
            Some((words, after)) if !words.contains('[') => {
                out += words;
                after
            }
            _ => {
                out.push('[');
                after
            }
        };
    }
    let mut out = (out + rest).replace("**", "").replace('`', "");
    // An asterisk that begins or ends a word is emphasis; one between others, as in `tcp-*`, is meant.
    while let Some((before, words, after)) = emphasis(&out) {
        out = format!("{before}{words}{after}");
    }
    out
}

/// What stands before, in and after the first `*words*` of a text.
fn emphasis(text: &str) -> Option<(&str, &str, &str)> {
    let is_apart = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric() && c != '-');
    text.match_indices('*').find_map(|(at, _)| {
        let (before, rest) = (&text[..at], &text[at + 1..]);
        let (words, after) = rest.split_once('*')?;
        let is_words = words.starts_with(char::is_alphanumeric) && words.ends_with(char::is_alphanumeric);
        let stands = is_apart(before.chars().next_back()) && is_apart(after.chars().next());
        (is_words && stands).then_some((before, words, after))
    })
}

/// Words in lines of at most [`COLUMNS`], the second and further ones indented.
fn wrapped(text: &str, indent: usize) -> String {
    folded(text, indent, COLUMNS).join("\n")
}

/// Running text in lines of so many columns; a word that is longer than that has a line of its own.
pub(crate) fn folded(text: &str, indent: usize, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is one line or more");
        if !line.trim().is_empty() && line.chars().count() + 1 + word.chars().count() > columns {
            lines.push(" ".repeat(indent) + word);
            continue;
        }
        if !line.trim().is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines
}

/// A section for a terminal: paragraphs wrapped, a table's row as `first: second; third`, blocks of code as they are.
fn text(section: &str) -> String {
    let mut out = String::new();
    let mut paragraph = String::new();
    let mut heads: Vec<String> = Vec::new();
    let mut code = false;
    let flush = |paragraph: &mut String, out: &mut String| {
        if !paragraph.is_empty() {
            let indent = if paragraph.starts_with("- ") { 2 } else { 0 };
            let _ = writeln!(out, "{}", wrapped(&plain(paragraph), indent));
            paragraph.clear();
        }
    };
    for line in section.lines() {
        if line.starts_with("```") {
            flush(&mut paragraph, &mut out);
            code = !code;
        } else if code {
            let _ = writeln!(out, "  {line}");
        } else if line.starts_with("<!--") {
            // A mark of `cargo xtask results`.
        } else if let Some(row) = line.strip_prefix('|') {
            flush(&mut paragraph, &mut out);
            let cells: Vec<String> = row.trim_end_matches('|').split(" | ").map(|cell| plain(cell.trim())).collect();
            let is_rule = cells.iter().all(|cell| cell.chars().all(|c| "-| ".contains(c)));
            match heads.is_empty() {
                _ if is_rule => {}
                true => heads = cells,
                false => {
                    let first = cells.first().map_or("", String::as_str);
                    let named = cells.iter().zip(&heads).skip(1).filter(|(cell, _)| !cell.is_empty());
                    let others: Vec<String> = match heads.len() {
                        2 => named.map(|(cell, _)| cell.clone()).collect(),
                        _ => named.map(|(cell, head)| format!("{head}: {cell}")).collect(),
                    };
                    // A cell that is empty goes on with the one above.
                    let first = if first.is_empty() { String::new() } else { format!("{first}: ") };
                    let _ = writeln!(out, "  {}", wrapped(&format!("{first}{}", others.join(" / ")), 6));
                }
            }
            continue;
        } else if line.trim().is_empty() {
            flush(&mut paragraph, &mut out);
            out.push('\n');
        } else {
            if line.starts_with("- ") {
                flush(&mut paragraph, &mut out);
            }
            if !paragraph.is_empty() {
                paragraph.push(' ');
            }
            paragraph += line.trim();
        }
        heads.clear();
    }
    flush(&mut paragraph, &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use wavelane_study::STUDIES;

    #[test]
    fn markdown_becomes_plain_text() {
        assert_eq!(plain("see [the `lab`](lab.md#x), x[0] and `a`"), "see the lab, x[0] and a");
        assert_eq!(
            plain("`2001` is *fitted to it*: `tcp-*` and `x*y`, *so*"),
            "2001 is fitted to it: tcp-* and x*y, so"
        );
        let shown =
            text("One\ntwo.\n\n| a | b |\n|---|---|\n| `x` | 1 |\n| | 2 |\n\n- item\n  more\n\n```sh\nrun   it\n```\n");
        assert_eq!(shown, "One two.\n\n  x: 1\n  2\n\n- item more\n\n  run   it\n");
        assert!(text(&"word ".repeat(60)).lines().all(|line| line.len() <= COLUMNS));
    }

    #[test]
    fn on_a_terminal_the_list_is_no_wider_than_text() {
        let (plain, folded) = (list(&STUDIES, false), list(&STUDIES, true));
        assert_eq!(plain.lines().count(), STUDIES.len());
        assert!(plain.lines().any(|line| line.len() > COLUMNS + 2));
        assert!(folded.lines().all(|line| line.len() <= COLUMNS + 2), "{folded}");
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words(&plain), words(&folded));
    }

    #[test]
    fn every_study_says_what_it_asks_and_what_came_out() {
        for study in STUDIES.iter() {
            let shown = show(study);
            assert!(verdict(study.id).is_some(), "{}", study.id);
            let section = section(study.id);
            let (asked, rest) = section.split_once("\n\n**Answer.** ").unwrap_or_else(|| panic!("{}", study.id));
            let (answer, fails) = rest.split_once("\n\n**Fails.** ").unwrap_or_else(|| panic!("{}", study.id));
            assert!(asked.starts_with("**Question.** ") && asked.ends_with('?'), "{asked}");
            assert!(answer.contains(|c: char| c.is_ascii_digit()) && !fails.is_empty(), "{}: {answer}", study.id);
            for part in study.parts.iter().chain(study.stacks).chain(&study.takes) {
                assert!(shown.contains(part), "{}: {part}", study.id);
            }
            let words: Vec<&str> = section.split(|c: char| !c.is_alphanumeric() && c != '-').collect();
            let untold = study.parts.iter().find(|part| !words.contains(part));
            assert_eq!(untold, None, "{}: a part that its section does not name", study.id);
            assert!(shown.contains("\nverdict    ") && shown.contains("\nAnswer. "), "{shown}");
            let marks = ["](", "**", " *", "(*", "  : ", "<!--"];
            assert!(marks.iter().all(|mark| !shown.contains(mark)), "{shown}");
        }
    }
}
