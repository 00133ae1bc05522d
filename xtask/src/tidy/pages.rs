//! Rules on Markdown files: model pages keep their form, and local links lead somewhere.

use super::Finding;

const FIRST: &str = "## Scope and Limitations";
const LAST: &str = "## Validation";

/// Checks one Markdown file; `exists` says whether a path from the root does.
pub(crate) fn check(path: &str, text: &str, exists: &dyn Fn(&str) -> bool) -> Vec<Finding> {
    let lines = prose(text);
    let mut findings = links(path, &lines, exists);
    let is_model = path.starts_with("docs/models/") && !path.ends_with("/README.md") && !path.ends_with("/index.md");
    if is_model {
        findings.extend(model_page(path, &lines));
    }
    findings
}

/// The list of decisions.
pub(crate) const DECISIONS: &str = "docs/decisions/README.md";

/// A decision that its list, of this text, does not link.
pub(crate) fn unlisted(path: &str, list: &str) -> Option<Finding> {
    let name = path.strip_prefix("docs/decisions/").filter(|_| path != DECISIONS)?;
    (!list.contains(&format!("]({name})")))
        .then(|| Finding::refuse(path, 1, format!("{DECISIONS} does not list this page"), "add a row for it"))
}

/// The page with the table of terms.
pub(crate) const TERMS: &str = "ARCHITECTURE.md";

/// The terms of its table, as types are named.
pub(crate) fn terms(page: &str) -> Vec<String> {
    let rows =
        page.lines().skip_while(|line| !line.starts_with("| term ")).skip(2).take_while(|line| line.starts_with('|'));
    let capital = |word: &str| word[..1].to_uppercase() + &word[1..];
    let name = |term: &str| term.split_whitespace().map(capital).collect();
    rows.filter_map(|row| row.split('|').nth(1)).flat_map(|cell| cell.split(',').map(name)).collect()
}

/// Octets of all pages below `docs/` together; results are not counted.
const PAGES_MAX: usize = 620_000;

/// Whether a file is one of the pages whose length is bounded.
pub(crate) fn is_bounded(path: &str) -> bool {
    path.starts_with("docs/") && path.ends_with(".md") && !path.starts_with("docs/results/")
}

/// A finding if the bounded pages have more octets together than is allowed.
pub(crate) fn too_long(octets: usize) -> Option<Finding> {
    (octets > PAGES_MAX).then(|| {
        let what = format!("the pages below docs/ have {octets} octets, more than {PAGES_MAX}");
        Finding::refuse("docs", 1, what, "delete what is said twice, what a command prints, and history")
    })
}

/// The lines outside code fences, with their numbers from 1.
fn prose(text: &str) -> Vec<(usize, &str)> {
    let mut fence: Option<&str> = None;
    let mut lines = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let start = line.trim_start();
        let mark = ["```", "~~~"].into_iter().find(|mark| start.starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            (None, None) => lines.push((i + 1, line)),
            _ => {}
        }
    }
    lines
}

fn model_page(path: &str, lines: &[(usize, &str)]) -> Vec<Finding> {
    let mut sections = lines.iter().filter(|(_, line)| line.starts_with("## "));
    let first = sections.next();
    let last = sections.next_back().or(first);
    let line = |section: Option<&(usize, &str)>| section.map_or(1, |(line, _)| *line);
    let mut findings = Vec::new();
    if first.is_none_or(|(_, text)| text.trim_end() != FIRST) {
        let what = format!("the first section is not '{FIRST}'");
        findings.push(Finding::refuse(path, line(first), what, "say first what the model leaves out"));
    }
    if last.is_none_or(|(_, text)| text.trim_end() != LAST) {
        let what = format!("the last section is not '{LAST}'");
        findings.push(Finding::refuse(
            path,
            line(last),
            what,
            "end with what was checked, against what, and the command",
        ));
    }
    findings
}

fn links(path: &str, lines: &[(usize, &str)], exists: &dyn Fn(&str) -> bool) -> Vec<Finding> {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut findings = Vec::new();
    for (number, line) in lines {
        for target in targets(&without_code(line)) {
            let local = target.split(['#', '?']).next().unwrap_or_default();
            let remote = target.contains("://") || target.starts_with("mailto:");
            if remote || local.is_empty() {
                continue;
            }
            let resolved = resolve(folder, local);
            if !resolved.as_deref().is_some_and(exists) {
                let what = format!("the link to '{target}' leads nowhere");
                findings.push(Finding::refuse(
                    path,
                    *number,
                    what,
                    "correct the path, which counts from this file's folder",
                ));
            }
        }
    }
    findings
}

/// `line` with inline code blanked out.
fn without_code(line: &str) -> String {
    line.split('`').enumerate().map(|(i, part)| if i % 2 == 0 { part } else { " " }).collect()
}

/// The targets of `[text](target)`, `[text](target "title")` and `[name]: target`.
fn targets(line: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in line.match_indices("](") {
        let rest = &line[at + 2..];
        let target = match rest.strip_prefix('<') {
            Some(inner) => inner.split('>').next(),
            None => rest.split([')', ' ']).next(),
        };
        found.extend(target.filter(|t| !t.is_empty()).map(str::to_owned));
    }
    if let Some((name, target)) = line.split_once("]: ")
        && name.starts_with('[')
        && !name.starts_with("[^")
    {
        found.extend(target.split_whitespace().next().map(str::to_owned));
    }
    found
}

/// A path from the root, or `None` if it leads out of it.
fn resolve(folder: &str, target: &str) -> Option<String> {
    let from_root = target.starts_with('/');
    let mut parts: Vec<&str> =
        if from_root { Vec::new() } else { folder.split('/').filter(|p| !p.is_empty()).collect() };
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            other => parts.push(other),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(path: &str, text: &str) -> Vec<usize> {
        let exists = |target: &str| ["README.md", "docs/models/loss.md", "crates/a.rs", ""].contains(&target);
        check(path, text, &exists).iter().map(|f| f.line).collect()
    }

    #[test]
    fn local_links_must_lead_somewhere() {
        let text = "[a](loss.md) [b](../../crates/a.rs#L3)\n[c](los.md)\n[d](../../../etc/passwd)\n[e](/README.md)\n\
                    [f](https://x.org/no) [g](#here) `[h](no.md)`\n```\n[i](no.md)\n```\n[j](<no file.md>)\n[k]: nowhere.md\n";
        assert_eq!(broken("docs/models/page.md", &format!("{FIRST}\n{text}{LAST}\n")), [3, 4, 10, 11]);
    }

    #[test]
    fn every_decision_is_listed() {
        let list = "| [0001](0001-a.md) | A |";
        let found = |path| unlisted(path, list).is_some();
        assert!(!found("docs/decisions/0001-a.md") && !found(DECISIONS) && !found("docs/guide/lab.md"));
        assert!(found("docs/decisions/0002-b.md"));
    }

    #[test]
    fn pages_are_bounded_together_and_results_are_not() {
        let bounded = ["docs/README.md", "docs/guide/lab.md"];
        assert!(bounded.iter().all(|path| is_bounded(path)));
        assert!(!is_bounded("docs/results/ns3.md") && !is_bounded("README.md") && !is_bounded("docs/guide/lab.txt"));
        assert!(too_long(PAGES_MAX).is_none() && too_long(PAGES_MAX + 1).is_some());
    }

    #[test]
    fn two_links_on_a_line_are_both_checked() {
        assert_eq!(broken("a.md", "see [x](nope.md) and [y](README.md \"title\") and ![z](nope.png)\n"), [1, 1]);
    }

    #[test]
    fn a_model_page_begins_with_limits_and_ends_with_validation() {
        assert!(broken("docs/models/a.md", &format!("# A\n\n{FIRST}\n\n## Usage\n\n{LAST}\n")).is_empty());
        assert_eq!(broken("docs/models/a.md", &format!("# A\n\n## Usage\n\n{FIRST}\n\n{LAST}\n")), [3]);
        assert_eq!(broken("docs/models/a.md", &format!("# A\n\n{FIRST}\n\n{LAST}\n\n## References\n")), [7]);
        assert_eq!(
            broken("docs/models/a.md", &format!("# A\n```\n{FIRST}\n{LAST}\n```\n")),
            [1, 1],
            "a fence is no section"
        );
        assert!(broken("docs/guide/a.md", "# A\n").is_empty(), "only model pages have this form");
    }
}
