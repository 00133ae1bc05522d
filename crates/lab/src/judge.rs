//! Whether a run proves something.

use crate::LabError;
use crate::backend::LATENESS_BOUND;
use crate::world::Findings;

/// Whether the host was good enough for the run to prove something; says in the notes how good it was.
pub(crate) fn judge(findings: &Findings, notes: &mut Vec<String>) -> Result<Option<String>, LabError> {
    let outcome = &findings.outcome;
    let lateness = &outcome.lateness;
    let (p50, p99) = (lateness.per_mille(500), lateness.per_mille(990));
    notes.push(format!(
        "channel lateness over {} deliveries: p50 {} us, p99 {} us, max {} us{}",
        lateness.count(),
        p50.as_micros(),
        p99.as_micros(),
        lateness.max().as_micros(),
        if outcome.preferred { ", at real-time priority" } else { ", without real-time priority" },
    ));
    if outcome.uncaptured > 0 {
        notes.push(format!("{} packets are missing from the captures (file full or disk slow)", outcome.uncaptured));
    }
    if let Some(error) = &outcome.capture_error {
        let error = std::io::Error::other(error.clone());
        return Err(LabError::Io { what: "cannot write a capture; free space or choose another --out".into(), error });
    }
    let refused: u64 = outcome.refused.iter().sum();
    if findings.ring_drops > 0 {
        let n = findings.ring_drops;
        return Ok(Some(format!("the host dropped {n} packets before a channel saw them: it is too slow or too busy")));
    }
    if refused > 0 {
        return Ok(Some(format!("a kernel refused {refused} packets that a channel delivered: it is short of memory")));
    }
    Ok((p99 > LATENESS_BOUND).then(|| {
        format!(
            "1 % of packets were delivered {} us late or more, bound {LATENESS_BOUND}: the host is too slow or too busy",
            p99.as_micros()
        )
    }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use wavelane_base::Span;

    fn after(late_ms: u64, times: u64) -> Findings {
        let mut findings = Findings::default();
        (0..1000 - times).for_each(|_| findings.outcome.lateness.note(Span::from_micros(40)));
        (0..times).for_each(|_| findings.outcome.lateness.note(Span::from_millis(late_ms)));
        findings
    }

    #[test]
    fn a_slow_host_makes_a_run_inconclusive_and_a_rare_hiccup_does_not() {
        let mut notes = Vec::new();
        assert_eq!(judge(&after(50, 9), &mut notes).unwrap(), None);
        assert!(notes[0].contains("p50 40 us") || notes[0].contains("p50 50 us"), "{notes:?}");
        assert!(notes[0].contains("max 50000 us"), "{notes:?}");
        let why = judge(&after(6, 11), &mut notes).unwrap().unwrap();
        assert!(why.contains("bound 5 ms") && why.contains("600"), "{why}");
        assert_eq!(judge(&after(4, 500), &mut notes).unwrap(), None);
    }

    #[test]
    fn packets_lost_outside_the_channel_prove_nothing_and_a_full_disk_fails() {
        let mut notes = Vec::new();
        let mut findings = after(0, 0);
        findings.ring_drops = 3;
        assert!(judge(&findings, &mut notes).unwrap().unwrap().contains("3 packets"));
        let mut findings = after(0, 0);
        findings.outcome.refused = [0, 2];
        assert!(judge(&findings, &mut notes).unwrap().unwrap().contains("2 packets"));
        findings.outcome.capture_error = Some("No space left on device".into());
        assert!(judge(&findings, &mut notes).unwrap_err().to_string().contains("--out"));
    }
}
