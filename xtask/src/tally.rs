//! The last line of `make test`: how many tests passed, failed and were skipped, from what they printed.

/// Counts of a whole suite.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Tally {
    passed: u64,
    failed: u64,
    skipped: u64,
}

impl Tally {
    /// Of logs that hold harnesses' result lines, JUnit's totals and tests' own `SKIPPED (why)`. `ended` is how the suite ended:
    /// one that failed outside a test counts as one failure.
    pub(crate) fn of(logs: &[String], ended: u8) -> Self {
        let mut tally = Self::default();
        for log in logs {
            // A JUnit file holds what each test's own harness said as well.
            let totals = log.lines().find_map(|line| line.trim_start().strip_prefix("<testsuites "));
            if let Some(totals) = totals {
                let count = |key: &str| -> u64 {
                    let value = totals.split_once(&format!(" {key}=\"")).and_then(|(_, rest)| rest.split_once('"'));
                    value.and_then(|(value, _)| value.parse().ok()).unwrap_or(0)
                };
                let failed = count("failures") + count("errors");
                tally.passed += count("tests").saturating_sub(failed);
                tally.failed += failed;
            }
            for line in log.lines() {
                if let Some(result) = line.strip_prefix("test result:").filter(|_| totals.is_none()) {
                    let count = |word: &str| -> u64 {
                        let words: Vec<&str> = result.split_whitespace().collect();
                        let pair = words.windows(2).find(|pair| pair[1].trim_end_matches(';') == word);
                        pair.and_then(|pair| pair[0].parse().ok()).unwrap_or(0)
                    };
                    tally.passed += count("passed");
                    tally.failed += count("failed");
                    tally.skipped += count("ignored");
                } else if line.contains("SKIPPED (") {
                    tally.skipped += 1;
                }
            }
        }
        if ended != 0 {
            tally.failed = tally.failed.max(1);
        }
        tally
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
running 3 tests
test a ... ok
SKIPPED (needs root): namespaces
test result: ok. 28 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 11.32s
test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.27s
SKIPPED (python3 is missing): vectors
";

    #[test]
    fn results_and_skips_are_summed() {
        assert_eq!(Tally::of(&[LOG.into()], 1).to_string(), "31 passed, 2 failed, 3 skipped");
        assert_eq!(Tally::of(&[], 0).to_string(), "0 passed, 0 failed, 0 skipped");
    }

    #[test]
    fn the_totals_of_junit_count() {
        let junit = r#"<testsuites name="nextest-run" tests="7" failures="1" errors="1" uuid="x" time="1.2">
    <testsuite name="a" tests="7" disabled="0" errors="1" failures="1">
            <system-out>
test result: ok. 1 passed; 0 failed; 0 ignored
</system-out><system-err>SKIPPED (1 test): x needs root</system-err>"#;
        assert_eq!(Tally::of(&[junit.into()], 100).to_string(), "5 passed, 2 failed, 1 skipped");
    }

    #[test]
    fn a_suite_that_failed_outside_a_test_has_a_failure() {
        assert_eq!(
            Tally::of(&["test result: ok. 5 passed; 0 failed; 0 ignored".into()], 101).to_string(),
            "5 passed, 1 failed, 0 skipped"
        );
    }
}
