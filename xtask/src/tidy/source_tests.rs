#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
use super::*;
use crate::tidy::Severity;

const ARROWS: &str = r#"
    [rooms]
    base = []
    host = []
    [permissions]
    pure = ["base"]
    unsafe = ["host"]
    impure-crates = []
"#;

fn findings(path: &str, text: &str) -> Vec<(Severity, usize, String)> {
    let rules = Rules::parse(ARROWS).unwrap();
    check(&rules, path, text).into_iter().map(|f| (f.severity, f.line, f.what)).collect()
}

fn refused(path: &str, text: &str) -> Vec<usize> {
    findings(path, text).into_iter().filter(|f| f.0 == Severity::Refuse).map(|f| f.1).collect()
}

#[test]
fn banned_words_are_found_in_code_only() {
    for banned in BANNED {
        let used = format!("fn f() {{\n    {}::x();\n}}\n", banned.word);
        assert_eq!(refused("crates/base/src/a.rs", &used), [2], "{}", banned.word);
        let named = format!("/// Never {0}.\nconst A: &str = \"{0}\";\n", banned.word);
        assert!(refused("crates/base/src/a.rs", &named).is_empty(), "{}", banned.word);
        assert!(refused("crates/host/src/a.rs", &used).is_empty(), "host may: {}", banned.word);
    }
}

#[test]
fn tests_may_read_files_but_not_clocks() {
    let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    use std::fs;\n    use std::time::Instant;\n}\n";
    assert_eq!(refused("crates/base/src/a.rs", text), [5]);
    assert_eq!(refused("crates/base/tests/a.rs", "use std::fs;\nuse std::thread;\n"), [2]);
    assert_eq!(refused("crates/base/src/a_tests.rs", "use std::fs;\nuse std::thread;\n"), [2]);
}

#[test]
fn braces_do_not_hide_a_module() {
    let text = "use std::{\n    collections::{BTreeMap, VecDeque},\n    thread,\n    fs::File,\n};\n";
    assert_eq!(refused("crates/base/src/a.rs", text), [3, 4]);
    assert!(refused("crates/base/src/a.rs", "use std::{fmt, collections::BTreeMap};\n").is_empty());
}

#[test]
fn a_crate_root_forbids_unsafe_unless_it_may_hold_it() {
    for path in ["crates/base/src/lib.rs", "crates/base/src/main.rs", "xtask/src/main.rs", "crates/base/src/bin/x.rs"] {
        assert_eq!(refused(path, "fn main() {}\n"), [1], "{path}");
        assert_eq!(refused(path, "// #![forbid(unsafe_code)]\n"), [1], "a comment forbids nothing");
        assert!(refused(path, "#![forbid(unsafe_code)]\n").is_empty());
    }
    assert!(refused("crates/host/src/lib.rs", "").is_empty());
    assert!(refused("crates/base/src/other.rs", "").is_empty());
}

#[test]
fn long_files_are_warned_about_and_then_refused() {
    let lines = |n| "// x\n".repeat(n);
    assert!(findings("crates/base/src/a.rs", &lines(400)).is_empty());
    assert_eq!(findings("crates/base/src/a.rs", &lines(401))[0].0, Severity::Warn);
    assert_eq!(findings("crates/base/src/a.rs", &lines(800))[0].0, Severity::Warn);
    assert_eq!(refused("crates/base/src/a.rs", &lines(801)), [800]);
}

#[test]
fn long_tests_inside_a_file_are_refused() {
    let tests = |n| format!("fn a() {{}}\n#[cfg(test)]\nmod tests {{\n{}}}\n", "    // x\n".repeat(n));
    assert!(refused("crates/base/src/a.rs", &tests(197)).is_empty());
    assert_eq!(refused("crates/base/src/a.rs", &tests(198)), [2]);
    let elsewhere =
        format!("#[cfg(test)]\n#[path = \"a_tests.rs\"]\nmod tests;\nfn f() {{\n{}}}\n", "    // x\n".repeat(250));
    assert!(refused("crates/base/src/a.rs", &elsewhere).is_empty());
}

#[test]
fn long_functions_are_warned_about() {
    let function = |n| format!("trait T {{ fn g(&self); }}\npub fn f() {{\n{}}}\n", "    x();\n".repeat(n));
    assert!(findings("crates/base/src/a.rs", &function(68)).is_empty());
    let found = findings("crates/base/src/a.rs", &function(69));
    assert_eq!((found.len(), found[0].0, found[0].1), (1, Severity::Warn, 2));
}

#[test]
fn unfinished_code_is_refused() {
    let text = format!("fn a() {{ todo!() }}\nfn b() {{ unimplemented!() }}\n// {}: later\n", concat!("FIX", "ME"));
    assert_eq!(refused("crates/host/src/a.rs", &text), [1, 2, 3]);
    assert!(refused("crates/host/src/a.rs", "// a todo list\nconst A: &str = \"todo!\";\n").is_empty());
}

#[test]
fn rooms_that_name_no_medium_are_told_where_to_name_it() {
    let rules =
        Rules::parse("[rooms]\ntransport = []\nsim = []\n[permissions]\npure = []\nunsafe = []\nimpure-crates = []\n")
            .unwrap();
    let lines = |path: &str| check(&rules, path, "fn f() {\n    g(Carrier::UDP, Address::Station(m));\n}\n").len();
    assert_eq!(lines("crates/transport/src/lane/a.rs"), 2);
    assert_eq!((lines("crates/transport/src/lane/a_tests.rs"), lines("crates/sim/src/media.rs")), (0, 0));
}

#[test]
fn a_joined_type_has_methods_in_one_file() {
    let rules =
        Rules::parse("[rooms]\ngateway = []\nsim = []\n[permissions]\npure = []\nunsafe = []\nimpure-crates = []\n")
            .unwrap();
    let methods = "impl Gateway {\n    fn f() {}\n}\nimpl Machine for Gateway {}\n";
    let lines = |path: &str, text: &str| check(&rules, path, text).iter().map(|found| found.line).collect::<Vec<_>>();
    assert_eq!(lines("crates/gateway/src/flows/lost.rs", &format!("mod a;\n{methods}")), [2]);
    for path in ["crates/gateway/src/gateway.rs", "crates/gateway/src/gateway_tests.rs", "crates/sim/src/node.rs"] {
        assert!(lines(path, methods).is_empty(), "{path}");
    }
    let in_tests = format!("#[cfg(test)]\nmod tests {{\n{methods}}}\n");
    assert!(lines("crates/gateway/src/flows/lost.rs", &in_tests).is_empty());
}

#[test]
fn lines_of_code_leave_out_comments_and_tests() {
    let text = "//! A.\n\nfn a() {\n    b(); // c\n}\n#[cfg(test)]\nmod tests {\n    fn x() {}\n}\n";
    assert_eq!(code_lines("crates/base/src/a.rs", text), 3);
    let elsewhere = ["crates/base/src/a_tests.rs", "crates/base/tests/it/a.rs", "xtask/src/a.rs"];
    assert_eq!(elsewhere.map(|path| code_lines(path, text)), [0; 3]);
    assert!(too_much(CODE_LINES_MAX + 1).is_some() && too_much(CODE_LINES_MAX).is_none());
}

#[test]
fn a_public_type_says_of_what_it_is_the_kind() {
    let text = "pub enum Kind {\n}\npub struct StageKind;\nstruct State;\n// pub struct Found;\npub type Place = u8;\n";
    assert_eq!(refused("crates/base/src/plan.rs", text), [1, 6]);
    assert!(refused("crates/base/src/plan_tests.rs", text).is_empty());
}

#[test]
fn a_term_is_the_name_of_one_public_type() {
    let types = |path: &str| {
        let found = public_types(path, "pub struct Lane;\npub(crate) struct Link;\nmod a {\n    pub struct Flow;\n}\n");
        found.into_iter().map(|(line, name)| (path.to_owned(), line, name)).collect::<Vec<_>>()
    };
    let terms =
        super::super::pages::terms("| term | meaning |\n|---|---|\n| Lane, Lane ack | one way |\n\n| Other | x |\n");
    assert_eq!(terms, ["Lane", "LaneAck"]);
    let (one, other) = (types("crates/base/src/a.rs"), types("crates/wire/src/b.rs"));
    assert!(ambiguous(&terms, &one).is_empty() && types("crates/base/src/a_tests.rs").is_empty());
    let found = ambiguous(&terms, &[one, other].concat());
    assert_eq!(found.iter().map(|f| (f.path.as_str(), f.line)).collect::<Vec<_>>(), [("crates/wire/src/b.rs", 1)]);
}
