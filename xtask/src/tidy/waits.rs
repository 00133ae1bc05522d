//! Deliberate real time in tests: each wait of a second or more says why and for how long, and their sum is bounded.

use super::Finding;

/// Seconds of deliberate real time that all tests together may take, long editions included.
const SECONDS_MAX: u64 = 600;
/// How a wait is explained: `// real time: 2 s, why`.
const MARK: &str = "// real time: ";
/// Lines above a wait in which its explanation may stand.
const ABOVE: usize = 3;
/// What lets a test wait, and the unit of its number in milliseconds.
const WAITS: &[(&str, u64)] = &[
    ("pause(Duration::from_secs(", 1_000),
    ("pause(Duration::from_millis(", 1),
    ("pause(std::time::Duration::from_secs(", 1_000),
    ("sleep(Duration::from_secs(", 1_000),
    ("sleep(Duration::from_millis(", 1),
    ("scenario.duration = Span::from_secs(", 1_000),
];
/// A wait shorter than this is a step of polling.
const SHORT_MS: u64 = 1_000;
const EXPLAIN: &str = "say `// real time: N s, why` above it, or test the decision in virtual time";

/// The seconds that a file of tests says it takes, and its waits that say nothing.
pub(crate) fn check(path: &str, text: &str) -> (u64, Vec<Finding>) {
    let lines: Vec<&str> = text.lines().collect();
    let seconds = lines.iter().filter_map(|line| explained(line)).sum();
    let mut findings = Vec::new();
    for (n, line) in lines.iter().enumerate() {
        let long = WAITS.iter().any(|(call, unit)| {
            line.match_indices(call)
                .any(|(at, _)| waited(&line[at + call.len()..]).is_some_and(|n| n * unit >= SHORT_MS))
        });
        let said = lines[n.saturating_sub(ABOVE)..=n].iter().any(|line| line.contains(MARK));
        if long && !said {
            findings.push(Finding::refuse(path, n + 1, "a test waits a second or more and does not say why", EXPLAIN));
        }
    }
    (seconds, findings)
}

/// Whether the sum is more than allowed.
pub(crate) fn too_long(seconds: u64) -> Option<Finding> {
    let what = format!("tests take {seconds} s of deliberate real time, more than {SECONDS_MAX}");
    (seconds > SECONDS_MAX)
        .then(|| Finding::refuse("xtask/src/tidy/waits.rs", 1, what, "test decisions in virtual time"))
}

/// Whole seconds, rounded up, of `real time: N s`.
fn explained(line: &str) -> Option<u64> {
    let (_, rest) = line.split_once(MARK)?;
    number(rest)
}

/// The number of a call: what a variable holds is taken for seconds and for few milliseconds.
fn waited(text: &str) -> Option<u64> {
    number(text).or(text.starts_with(char::is_alphabetic).then_some(SHORT_MS - 1))
}

/// The number that a text begins with.
fn number(text: &str) -> Option<u64> {
    let digits: String = text.chars().take_while(|c| c.is_ascii_digit() || *c == '_').filter(|c| *c != '_').collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_say_why_and_are_summed() {
        let mark = format!("    {MARK}5 s, the kernel's timer");
        let good = format!("{mark}\n    pause(Duration::from_secs(5));\n    pause(Duration::from_millis(200));\n");
        assert_eq!(check("a_tests.rs", &good), (5, vec![]));
        let (seconds, findings) = check("a_tests.rs", "pause(Duration::from_millis(1_000));\n");
        assert_eq!((seconds, findings.len(), findings[0].line), (0, 1, 1));
        assert!(check("a_tests.rs", "pause(Duration::from_secs(settle));\n").1.len() == 1, "unknown is long");
        assert!(too_long(SECONDS_MAX).is_none() && too_long(SECONDS_MAX + 1).is_some());
    }
}
