//! Rules on Rust files.

use super::Finding;
use super::arrows::Rules;
use super::code::{block_after, line_at, lines_with, strip};

/// Lines a file should not exceed.
const LINES_AIM: usize = 400;
/// Lines a file must not exceed.
const LINES_MAX: usize = 800;
/// Lines a test module inside its file must not exceed.
const INLINE_TESTS_MAX: usize = 200;
/// Lines a function should not exceed.
const FUNCTION_AIM: usize = 70;

/// A word that pure rooms may not hold, and what to do instead.
struct Banned {
    word: &'static str,
    /// Whether tests may hold it.
    tests_may: bool,
    remedy: &'static str,
}

const CLOCK: &str = "take `now` as an argument: only wavelane-host reads a clock";
const DICE: &str = "take a `Chance` or an `Entropy` as an argument";
const ORDER: &str = "use BTreeMap, BTreeSet or Vec: the order of a hash map differs from run to run";
const THREAD: &str = "let the driver call: machines have no threads and never wait";
const MATHS: &str = "use wavelane_base::maths: the platform's differs in the last place from machine to machine";
const WORLD: &str = "let the driver read it and hand it in";

const fn ban(word: &'static str, remedy: &'static str) -> Banned {
    Banned { word, tests_may: false, remedy }
}
const fn ban_outside_tests(word: &'static str, remedy: &'static str) -> Banned {
    Banned { word, tests_may: true, remedy }
}

const BANNED: &[Banned] = &[
    ban("std::time::Instant", CLOCK),
    ban("SystemTime", CLOCK),
    ban("std::thread", THREAD),
    ban("HashMap", ORDER),
    ban("HashSet", ORDER),
    ban("thread_rng", DICE),
    ban("rand::rng", DICE),
    ban("OsRng", DICE),
    ban("getrandom", DICE),
    ban("UdpSocket", WORLD),
    ban("TcpStream", WORLD),
    ban("TcpListener", WORLD),
    ban_outside_tests(".ln", MATHS),
    ban_outside_tests(".log2", MATHS),
    ban_outside_tests(".log10", MATHS),
    ban_outside_tests(".exp", MATHS),
    ban_outside_tests(".exp2", MATHS),
    ban_outside_tests(".powf", MATHS),
    ban_outside_tests(".powi", MATHS),
    ban_outside_tests(".cbrt", MATHS),
    ban_outside_tests("std::env", WORLD),
    ban_outside_tests("std::fs", WORLD),
    ban_outside_tests("std::process", WORLD),
];

/// Modules of `std` that pure rooms may not import through a brace either.
const BANNED_MODULES: &[(&str, bool, &str)] =
    &[("thread", false, THREAD), ("env", true, WORLD), ("fs", true, WORLD), ("process", true, WORLD)];

/// Rooms that name no medium: what carries a lane's datagrams reaches them as a `Carrier` and an `Address`.
const WITHOUT_MEDIA: &[&str] = &["transport", "gateway"];
/// Names of media and of their addresses.
const MEDIA: &[&str] = &[
    "Carrier::UDP",
    "Address::Station",
    "Address::Line",
    "Host::Station",
    "Host::Line",
    "SocketAddrV4",
    "SocketAddrV6",
    "UDP4_OVERHEAD",
    "Udp4",
    "ethernet",
    "udp",
];

/// Types that are joined of parts, and the one file that joins them: what a part owns it touches itself, so methods of its own stand there
/// and nowhere else.
const JOINED: &[(&str, &str)] = &[("Gateway", "crates/gateway/src/gateway.rs")];

/// Names that say nothing in another file: a public type says of what it is the kind or the state.
const BARE: &[&str] = &["State", "Kind", "Held", "Found", "Place"];
/// Lines of code in `crates/`, without tests, comments and blank lines: what is added elsewhere is taken away first.
const CODE_LINES_MAX: usize = 127_376;

/// Counts them in a file of `crates/`.
pub(crate) fn code_lines(path: &str, text: &str) -> usize {
    if !path.starts_with("crates/") || !path.contains("/src/") || is_test_file(path) {
        return 0;
    }
    let code = strip(text);
    let tests = inline_tests(&code);
    let counts =
        |n: usize, line: &str| !line.trim().is_empty() && !tests.iter().any(|&(from, to)| (from..=to).contains(&n));
    code.lines().enumerate().filter(|(i, line)| counts(i + 1, line)).count()
}

/// Whether there are more than recorded.
pub(crate) fn too_much(lines: usize) -> Option<Finding> {
    let what = format!("{lines} lines of code in crates/ without tests, more than the {CODE_LINES_MAX} recorded");
    let remedy = "delete what is built twice, or record the new number in the same commit and say why";
    (lines > CODE_LINES_MAX).then(|| Finding::refuse("xtask/src/tidy/source.rs", 1, what, remedy))
}

/// The room a file belongs to: `crates/ROOM/..`, `xtask/..`, or none.
fn room_of(path: &str) -> Option<&str> {
    match path.strip_prefix("crates/") {
        Some(rest) => rest.split('/').next(),
        None => path.starts_with("xtask/").then_some("xtask"),
    }
}

/// Whether the whole file is tests, by its place.
pub(crate) fn is_test_file(path: &str) -> bool {
    path.contains("/tests/") || path.contains("/benches/") || path.ends_with("_tests.rs") || path.ends_with("/tests.rs")
}

/// Checks one Rust file.
pub(crate) fn check(rules: &Rules, path: &str, text: &str) -> Vec<Finding> {
    let code = strip(text);
    let tests = inline_tests(&code);
    let mut findings = lengths(path, text, &code, &tests);
    findings.extend(unfinished(path, text, &code));
    if let Some(room) = room_of(path) {
        let root = ["src/lib.rs", "src/main.rs"].iter().any(|end| path.ends_with(end)) || path.contains("/src/bin/");
        let words: String = code.split_whitespace().collect();
        if root && !rules.may_be_unsafe(room) && !words.contains("#![forbid(unsafe_code)]") {
            let what = "the crate's root lacks #![forbid(unsafe_code)]";
            findings.push(Finding::refuse(path, 1, what, "add it; system calls belong to wavelane-host"));
        }
        if rules.is_pure(room) || rules.is_pure_file(path) {
            findings.extend(impure(path, &code, &tests));
        }
        if WITHOUT_MEDIA.contains(&room) {
            findings.extend(media(path, &code, &tests));
        }
        findings.extend(floors(rules.floors(room), path, &code, &tests));
        findings.extend(scattered(path, &code, &tests));
        findings.extend(bare(path, &code));
    }
    findings
}

/// What a module uses of its own crate that stands no lower than itself. `floors` has the modules that have a place, from the ground up.
fn floors(floors: &[String], path: &str, code: &str, tests: &[(usize, usize)]) -> Vec<Finding> {
    let Some((_, own)) = path.split_once("/src/").filter(|_| !floors.is_empty() && !is_test_file(path)) else {
        return Vec::new();
    };
    let own: Vec<&str> = own.trim_end_matches(".rs").trim_end_matches("/mod").split('/').collect();
    let floor = |module: &[&str]| {
        let module = module.join("::");
        let within = |floor: &&String| module == **floor || module.starts_with(&format!("{floor}::"));
        floors.iter().rposition(|floor| within(&floor))
    };
    let Some(here) = floor(&own) else { return Vec::new() };
    let mut findings = Vec::new();
    for (at, from) in starts(code, &own) {
        let line = line_at(code, at);
        let higher = paths(&code[at..]).into_iter().map(|words| [from.as_slice(), &words].concat());
        // What has no place stands above all; a path that ends in the parent of a floor names an item of that parent's own.
        let higher = higher.filter(|module| match floor(module) {
            Some(there) => there > here,
            None => !module.is_empty() && !own.starts_with(&module[..1]),
        });
        for module in higher.filter(|_| !tests.iter().any(|&(a, b)| (a..=b).contains(&line))) {
            let what = format!("{} uses {}, which stands above it", floors[here], module.join("::"));
            findings.push(Finding::refuse(
                path,
                line,
                what,
                "turn it round, or hand in what is needed (xtask/arrows.toml)",
            ));
        }
    }
    findings
}

/// Where paths into the own crate begin, behind `crate::` or `super::`, and the module that they count from.
fn starts<'a>(code: &str, own: &[&'a str]) -> Vec<(usize, Vec<&'a str>)> {
    let crates = code.match_indices("crate::").map(|(at, word)| (at + word.len(), Vec::new()));
    let begins = |at: &usize| !code[..*at].ends_with("super::");
    let supers = code.match_indices("super::").filter(|(at, _)| begins(at)).map(|(at, _)| {
        let up = code[at..].split("super::").take_while(|rest| rest.is_empty()).count();
        (at + up * "super::".len(), own[..own.len().saturating_sub(up)].to_vec())
    });
    crates.filter(|(at, _)| !code[..*at].ends_with("$crate::")).chain(supers).collect()
}

/// The modules that the path at the beginning of `code` names, also in a brace list.
fn paths(code: &str) -> Vec<Vec<&str>> {
    if code.starts_with('{')
        && let Some((_, end)) = block_after(code, 0)
    {
        return first_words(&code[1..end - 1], 0)
            .into_iter()
            .map(|(word, _)| word)
            .filter(|w| is_module(w))
            .map(|w| vec![w])
            .collect();
    }
    let rest = |c: char| !c.is_alphanumeric() && c != '_' && c != ':';
    let words: Vec<&str> =
        code.split(rest).next().unwrap_or_default().split("::").take_while(|w| is_module(w)).collect();
    if words.is_empty() { Vec::new() } else { vec![words] }
}

fn is_module(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_lowercase()) && word != "self"
}

/// The public types that a file of `crates/` declares, with their lines.
pub(crate) fn public_types(path: &str, text: &str) -> Vec<(usize, String)> {
    if !path.starts_with("crates/") || !path.contains("/src/") || is_test_file(path) {
        return Vec::new();
    }
    named(&strip(text)).map(|(line, name)| (line, name.to_owned())).collect()
}

fn named(code: &str) -> impl Iterator<Item = (usize, &str)> {
    code.lines().enumerate().filter_map(|(i, line)| {
        let kinds = ["struct ", "enum ", "type ", "trait "];
        let rest = kinds.iter().find_map(|kind| line.strip_prefix("pub ")?.strip_prefix(kind))?;
        Some((i + 1, rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()?))
    })
}

/// Public types with a bare name.
fn bare(path: &str, code: &str) -> Vec<Finding> {
    let counts = path.contains("/src/") && !is_test_file(path);
    let refused = named(code).filter(|(_, name)| counts && BARE.contains(name));
    let finding = |(line, name)| {
        Finding::refuse(path, line, format!("a public type named {name} alone"), "say of what, as in StageKind")
    };
    refused.map(finding).collect()
}

/// Terms of ARCHITECTURE that are the name of more than one of these public types, given by path, line and name.
pub(crate) fn ambiguous(terms: &[String], types: &[(String, usize, String)]) -> Vec<Finding> {
    let of = |term: &String| types.iter().filter(|(.., name)| name == term).skip(1).collect::<Vec<_>>();
    let finding = |(path, line, name): &(String, usize, String)| {
        let what = format!("another public type named {name}, which is a term with one meaning");
        Finding::refuse(path, *line, what, "say which, as in GatewayEvent, or rename the term in ARCHITECTURE.md")
    };
    terms.iter().flat_map(of).map(finding).collect()
}

/// Methods of joined types that stand elsewhere than in the joining file of their room.
fn scattered(path: &str, code: &str, tests: &[(usize, usize)]) -> Vec<Finding> {
    let of_room = |file: &str| room_of(file) == room_of(path) && path.contains("/src/") && !is_test_file(path);
    let mut findings = Vec::new();
    for (joined, file) in JOINED.iter().filter(|(_, file)| of_room(file) && path != *file) {
        let opens = format!("impl {joined} {{");
        let lines = code.lines().enumerate().filter(|(_, line)| line.trim_start().starts_with(&opens));
        for (i, _) in lines.filter(|(i, _)| !tests.iter().any(|&(from, to)| (from..=to).contains(&(i + 1)))) {
            let what = format!("methods of {joined} outside {file}");
            findings.push(Finding::refuse(path, i + 1, what, "give them to the part that owns what they touch"));
        }
    }
    findings
}

/// Line ranges (from 1, both inclusive) of `#[cfg(test)]` blocks.
fn inline_tests(code: &str) -> Vec<(usize, usize)> {
    let mut ranges = Vec::new();
    let mut from = 0;
    while let Some(at) = code[from..].find("#[cfg(test)]").map(|n| from + n) {
        from = at + 1;
        // `mod tests;` has no block of its own.
        let semicolon = code[at..].find(';').map_or(usize::MAX, |n| at + n);
        if let Some((open, end)) = block_after(code, at)
            && open < semicolon
        {
            ranges.push((line_at(code, at), line_at(code, end)));
            from = end;
        }
    }
    ranges
}

fn lengths(path: &str, text: &str, code: &str, tests: &[(usize, usize)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let lines = text.lines().count();
    if lines > LINES_MAX {
        let what = format!("{lines} lines, more than {LINES_MAX}");
        findings.push(Finding::refuse(path, LINES_MAX, what, "give each state or concern a file of its own"));
    } else if lines > LINES_AIM {
        let what = format!("{lines} lines, more than {LINES_AIM}");
        findings.push(Finding::warn(path, LINES_AIM, what, "give each state or concern a file of its own"));
    }
    for &(start, end) in tests {
        let length = end - start + 1;
        if length > INLINE_TESTS_MAX {
            let what = format!("{length} lines of tests inside the file, more than {INLINE_TESTS_MAX}");
            findings.push(Finding::refuse(
                path,
                start,
                what,
                "move them to a sibling file: #[path = \"NAME_tests.rs\"]",
            ));
        }
    }
    for (line, length) in functions(code) {
        if length > FUNCTION_AIM {
            let what = format!("a function of {length} lines, more than {FUNCTION_AIM}");
            findings.push(Finding::warn(path, line, what, "split it where it changes subject"));
        }
    }
    findings
}

/// Line and length of every function with a body.
fn functions(code: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        let starts = at == 0 || !code.as_bytes()[at - 1].is_ascii_alphanumeric() && code.as_bytes()[at - 1] != b'_';
        let semicolon = code[at..].find(';').map_or(usize::MAX, |n| at + n);
        if let Some((open, end)) = block_after(code, at)
            && starts
            && open < semicolon
        {
            found.push((line_at(code, at), line_at(code, end) - line_at(code, at) + 1));
        }
    }
    found
}

fn unfinished(path: &str, text: &str, code: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for name in ["todo!", "unimplemented!"] {
        for (i, _) in code.lines().enumerate().filter(|(_, line)| line.contains(name)) {
            findings.push(Finding::refuse(
                path,
                i + 1,
                format!("{name} is left"),
                "write it, or refuse the case with an error",
            ));
        }
    }
    let mark = concat!("FIX", "ME");
    for (i, _) in text.lines().enumerate().filter(|(_, line)| line.contains(mark)) {
        findings.push(Finding::refuse(
            path,
            i + 1,
            format!("{mark} is left"),
            "mend it, or state the limit in the documentation",
        ));
    }
    findings
}

fn impure(path: &str, code: &str, tests: &[(usize, usize)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let in_tests = |line: usize| is_test_file(path) || tests.iter().any(|&(from, to)| (from..=to).contains(&line));
    for banned in BANNED {
        for line in lines_with(code, banned.word) {
            if !(banned.tests_may && in_tests(line)) {
                findings.push(Finding::refuse(path, line, format!("{} in a pure room", banned.word), banned.remedy));
            }
        }
    }
    for (at, _) in code.match_indices("std::{") {
        let Some((open, end)) = block_after(code, at) else { continue };
        for (module, offset) in first_words(&code[open + 1..end - 1], open + 1) {
            let line = line_at(code, offset);
            if let Some((name, tests_may, remedy)) = BANNED_MODULES.iter().find(|(name, ..)| *name == module)
                && !(*tests_may && in_tests(line))
            {
                findings.push(Finding::refuse(path, line, format!("std::{name} in a pure room"), remedy));
            }
        }
    }
    findings
}

/// Names of media outside tests.
fn media(path: &str, code: &str, tests: &[(usize, usize)]) -> Vec<Finding> {
    let in_tests = |line: usize| is_test_file(path) || tests.iter().any(|&(from, to)| (from..=to).contains(&line));
    let lines = MEDIA.iter().flat_map(|word| lines_with(code, word).map(move |line| (word, line)));
    lines
        .filter(|(_, line)| !in_tests(*line))
        .map(|(word, line)| {
            let remedy = "say it in base::Carrier or base::Address, or in the tables of media of daemon, lab and sim";
            Finding::refuse(path, line, format!("{word}, a medium's, in a room that names none"), remedy)
        })
        .collect()
}

/// The first word of each item of a brace list, with its offset.
fn first_words(list: &str, base: usize) -> Vec<(&str, usize)> {
    let mut words = Vec::new();
    let (mut depth, mut start) = (0usize, 0);
    for (i, byte) in list.bytes().chain([b',']).enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                let item = &list[start..i];
                let lead = item.len() - item.trim_start().len();
                let word =
                    item.trim_start().split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
                words.push((word, base + start + lead));
                start = i + 1;
            }
            _ => {}
        }
    }
    words
}

#[cfg(test)]
#[path = "source_tests.rs"]
mod tests;
