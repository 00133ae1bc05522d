//! Forms that the house has one of: assignments, and where tests stand.

use super::Finding;
use super::code::strip;

/// Where a module's file may be named by `#[path]`: tests beside a file, in a folder of tests, or shared by rooms or with the fuzz targets.
const NAMED: &[&str] = &["_tests.rs", "/fuzz/shared/", "/testing/", "tests/", "../daemon/commit.rs"];

/// Checks one Rust file of `crates/`.
pub(crate) fn check(path: &str, text: &str) -> Vec<Finding> {
    if !path.starts_with("crates/") {
        return Vec::new();
    }
    let (code, mut before, mut findings) = (strip(text), ';', Vec::new());
    for (i, line) in code.lines().enumerate() {
        let words = line.trim();
        if words.starts_with('(') && words.contains(") = (") && ";{}".contains(before) {
            let remedy = "a statement each; what is to change places does by core::mem::swap";
            findings.push(Finding::refuse(path, i + 1, "an assignment of a tuple to a tuple", remedy));
        }
        before = words.chars().last().unwrap_or(before);
    }
    for (i, line) in text.lines().enumerate() {
        let named = line.trim().strip_prefix("#[path = \"").and_then(|rest| rest.strip_suffix("\"]"));
        if let Some(file) = named.filter(|file| !NAMED.iter().any(|place| file.contains(place))) {
            let remedy = "tests of NAME.rs stand in NAME_tests.rs, in a folder tests/, or at its end";
            findings.push(Finding::refuse(path, i + 1, format!("a module in {file}"), remedy));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tuples_are_assigned_one_by_one_and_tests_have_their_place() {
        let lines = |text: &str| check("crates/base/src/a.rs", text).into_iter().map(|f| f.line).collect::<Vec<_>>();
        assert_eq!(lines("fn f() {\n    (a, b) = (1, 2);\n    let (c, d) = (1, 2);\n    (a, b) = both();\n}\n"), [2]);
        assert_eq!(lines("    x(\n        (a) == (b),\n    );\n"), Vec::<usize>::new());
        assert_eq!(lines("#[path = \"a_tests.rs\"]\n#[path = \"elsewhere.rs\"]\n"), [2]);
        assert!(check("xtask/src/a.rs", "(a, b) = (1, 2);\n").is_empty());
    }
}
