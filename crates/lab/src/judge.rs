//! Whether a run is conclusive.

use crate::LabError;
use crate::backend::LATENESS_BOUND;
use crate::world::Findings;

/// Maximum ratio of waiting for a processor to using one, for the programs in the gateways' place. On few processors their own work may
/// double the time; beside other programs' load they wait ten times as long, and the run shows the host's load.
const WAITING_BOUND: f64 = 2.0;
/// Waiting, as a share of the run and in seconds, up to which it matters to no figure: use is counted in ticks of 10 ms, and that of programs
/// that are nearly idle as none.
const WAITING_MIN: (f64, f64) = (0.01, 0.05);

/// Whether the host was good enough for a conclusive run; the notes say how good it was. `work` is how long the programs in the gateways'
/// place used a processor and waited for one in a run that `took` so long, in seconds.
pub(crate) fn judge(
    findings: &Findings,
    work: Option<(f64, f64)>,
    took: f64,
    notes: &mut Vec<String>,
) -> Result<Option<String>, LabError> {
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
    if let Some((used, waited)) = work {
        notes.push(format!(
            "programs in the gateways' place: {used:.2} s on a processor, {waited:.2} s waiting for one"
        ));
    }
    if outcome.uncaptured > 0 {
        notes.push(format!("{} packets are missing from the captures (file full or disk slow)", outcome.uncaptured));
    }
    if let Some(error) = &outcome.capture_error {
        let error = std::io::Error::other(error.clone());
        return Err(LabError::Io {
            what: "cannot write a capture; use --out with a writable folder that has free space".into(),
            error,
        });
    }
    if findings.stage_drops > 0 {
        notes.push(format!(
            "first stages of queues, which are rings of devices, dropped {} packets",
            findings.stage_drops
        ));
    }
    if findings.ring_drops > 0 {
        let n = findings.ring_drops;
        return Ok(Some(format!("the host dropped {n} packets before a channel saw them: it is too slow or too busy")));
    }
    if outcome.refused > 0 {
        let refused = outcome.refused;
        return Ok(Some(format!("a kernel refused {refused} packets that a channel delivered: it is short of memory")));
    }
    if p99 > LATENESS_BOUND {
        return Ok(Some(format!(
            "1 % of packets were delivered {} us late or more, bound {LATENESS_BOUND}: the host is too slow or too busy",
            p99.as_micros()
        )));
    }
    let least = (WAITING_MIN.0 * took).max(WAITING_MIN.1);
    let starved = work.filter(|(used, waited)| *waited > WAITING_BOUND * used && *waited > least);
    Ok(starved.map(|(used, waited)| {
        format!(
            "the gateways' programs waited {waited:.2} s for a processor and used it for {used:.2} s: the host is too busy"
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
    fn frequent_lateness_makes_a_run_inconclusive() {
        let mut notes = Vec::new();
        assert_eq!(judge(&after(50, 9), None, 10.0, &mut notes).unwrap(), None);
        assert!(notes[0].contains("p50 40 us") || notes[0].contains("p50 50 us"), "{notes:?}");
        assert!(notes[0].contains("max 50000 us"), "{notes:?}");
        let why = judge(&after(6, 11), None, 10.0, &mut notes).unwrap().unwrap();
        assert!(why.contains("bound 5 ms") && why.contains("600"), "{why}");
        assert_eq!(judge(&after(4, 500), None, 10.0, &mut notes).unwrap(), None);
    }

    #[test]
    fn starved_programs_make_a_run_inconclusive() {
        let mut notes = Vec::new();
        assert_eq!(judge(&after(0, 0), Some((1.5, 2.9)), 10.0, &mut notes).unwrap(), None);
        assert!(notes[1].contains("1.50 s on a processor, 2.90 s waiting"), "{notes:?}");
        let why = judge(&after(0, 0), Some((1.5, 3.1)), 10.0, &mut notes).unwrap().unwrap();
        assert!(why.contains("3.10 s") && why.contains("too busy"), "{why}");
        // Three pings, and a long run that needs next to nothing.
        assert_eq!(judge(&after(0, 0), Some((0.0, 0.02)), 1.0, &mut notes).unwrap(), None);
        assert_eq!(judge(&after(0, 0), Some((0.0, 0.9)), 100.0, &mut notes).unwrap(), None);
    }

    #[test]
    fn losses_outside_the_channel_are_inconclusive() {
        let mut notes = Vec::new();
        let mut findings = after(0, 0);
        findings.ring_drops = 3;
        assert!(judge(&findings, None, 10.0, &mut notes).unwrap().unwrap().contains("3 packets"));
        let mut findings = after(0, 0);
        findings.outcome.refused = 2;
        assert!(judge(&findings, None, 10.0, &mut notes).unwrap().unwrap().contains("2 packets"));
        findings.outcome.capture_error = Some("No space left on device".into());
        assert!(judge(&findings, None, 10.0, &mut notes).unwrap_err().to_string().contains("--out"));
    }
}
