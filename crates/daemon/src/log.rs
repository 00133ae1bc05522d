//! Plain one-line messages on standard error, with a limit on how many.

use wavelane_base::{Instant, Span};

/// Lines that may come at once.
const BURST: u32 = 100;
/// One more line is allowed each such span.
const REFILL: Span = Span::from_millis(100);

/// The log. What exceeds the limit is counted and the count is said later.
#[derive(Debug)]
pub(crate) struct Log {
    tokens: u32,
    refilled: Instant,
    suppressed: u64,
}

impl Log {
    pub(crate) fn new(now: Instant) -> Self {
        Self { tokens: BURST, refilled: now, suppressed: 0 }
    }
    /// Writes a line. Control characters, which a stranger might have chosen, are replaced.
    pub(crate) fn line(&mut self, now: Instant, text: &str) {
        if let Some(lines) = self.admit(now, text) {
            for line in lines {
                eprintln!("wavelaned: {line}");
            }
        }
    }
    fn admit(&mut self, now: Instant, text: &str) -> Option<Vec<String>> {
        let earned = now.since(self.refilled).as_nanos() / REFILL.as_nanos();
        if earned > 0 {
            self.tokens = self.tokens.saturating_add(u32::try_from(earned).unwrap_or(u32::MAX)).min(BURST);
            self.refilled += REFILL.times(earned);
        }
        if self.tokens == 0 {
            self.suppressed += 1;
            return None;
        }
        self.tokens -= 1;
        let mut lines = Vec::new();
        if self.suppressed > 0 {
            lines.push(format!("{} messages were left out here", std::mem::take(&mut self.suppressed)));
        }
        lines.push(text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect());
        Some(lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_cut_and_counted_and_stays_on_one_line() {
        let mut log = Log::new(Instant::ZERO);
        let now = Instant::from_millis(50);
        let admitted = (0..1_000).filter(|_| log.admit(now, "x").is_some()).count();
        assert_eq!(admitted, 100);
        let lines = log.admit(Instant::from_millis(200), "a\nb\x1b[31m");
        assert_eq!(
            lines.as_deref(),
            Some(["900 messages were left out here".to_string(), "a b [31m".to_string()].as_slice())
        );
    }
}
