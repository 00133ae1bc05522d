//! Why a segment was retransmitted, or came late, as far as a capture shows it.
//!
//! Near the sender a retransmission repeats octets that were seen; beyond the place of the loss it fills a gap, and so does a segment that
//! was merely reordered. Both are classified by what had passed the capture before: which later transmissions were reported delivered (RFC
//! 8985), how long nothing had come back, and whether the segment was the last one sent.

use super::ledger::{Added, Known};
use super::tsval::later;
use serde::Serialize;
use std::collections::VecDeque;

/// Linux's minimum retransmission timeout above the RTT (`TCP_RTO_MIN`); RFC 6298 has 1 s, which is longer.
const RTO_MIN_NS: u64 = 200_000_000;
/// Duplicate acknowledgements that start a fast retransmission (RFC 5681, section 3.2).
const DUPLICATE_ACKS: u32 = 3;
/// Retransmissions that a D-SACK may still name.
const RECENT_MAX: usize = 256;
/// The RTT before the first measurement (RFC 6298, section 2, gives 1 s as the timeout).
const UNKNOWN_RTT_NS: u64 = 800_000_000;
/// Upper limit of an RTT: one hour.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// Retransmissions by cause, counted in segments of the sender's size, as Linux counts them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Retransmits {
    /// After duplicate acknowledgements or SACK blocks (RFC 5681, RFC 6675, RFC 8985).
    pub fast: u64,
    /// After a retransmission timeout, including everything retransmitted until all data sent before it is acknowledged.
    pub rto: u64,
    /// Tail loss probes that repeat the last segment (RFC 8985, section 7).
    pub tlp: u64,
    /// Of all these, those that a D-SACK reported as unnecessary (RFC 2883).
    pub spurious: u64,
    /// Segments that came after later ones without being retransmitted.
    pub reordered: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
}

/// The cause of a retransmission.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cause {
    Fast,
    Rto,
    Tlp,
}

/// A cause, and whether the capture proves it or it follows from a heuristic.
type Judged = (Cause, bool);

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum State {
    #[default]
    Open,
    /// Recovery by fast retransmission until this is acknowledged.
    Fast(u64),
    /// Recovery from a timeout until this is acknowledged.
    Loss(u64),
}

/// RTTs as the sender's timer sees them (RFC 6298, section 2), both halves of the path together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Rtt {
    srtt_ns: u64,
    variation_ns: u64,
    least_ns: Option<u64>,
}

impl Rtt {
    pub(crate) fn add(&mut self, ns: u64) {
        // A damaged file may contain any times.
        let ns = ns.min(LONGEST_NS);
        match self.least_ns {
            None => (self.srtt_ns, self.variation_ns) = (ns, ns / 2),
            Some(_) => {
                self.variation_ns = (3 * self.variation_ns + self.srtt_ns.abs_diff(ns)) / 4;
                self.srtt_ns = (7 * self.srtt_ns + ns) / 8;
            }
        }
        self.least_ns = Some(self.least_ns.map_or(ns, |l| l.min(ns)));
    }
    pub(crate) fn least_ns(&self) -> Option<u64> {
        self.least_ns
    }
    pub(crate) fn smoothed_ns(&self) -> Option<u64> {
        self.least_ns.map(|_| self.srtt_ns)
    }
    /// This half of the path and the other together.
    fn with(&self, other: &Self) -> Self {
        let least_ns = match (self.least_ns, other.least_ns) {
            (None, None) => None,
            (a, b) => Some(a.unwrap_or(0).saturating_add(b.unwrap_or(0))),
        };
        Self {
            srtt_ns: self.srtt_ns.saturating_add(other.srtt_ns),
            variation_ns: self.variation_ns.saturating_add(other.variation_ns),
            least_ns,
        }
    }
    /// Whether a repair with this delay was not the first: one takes an RTT, and a second one another.
    pub(crate) fn is_late(&self, other: &Self, ns: u64) -> bool {
        let whole = self.with(other);
        whole.least_ns.is_some() && ns > whole.srtt_ns / 4 * 7
    }
    fn mean_ns(&self) -> u64 {
        if self.least_ns.is_some() { self.srtt_ns } else { UNKNOWN_RTT_NS }
    }
    /// A silence that only a retransmission timer ends: the RTT and over half of the timer's addition to it.
    fn silence_ns(&self) -> u64 {
        let above = RTO_MIN_NS.max(self.variation_ns.saturating_mul(4));
        self.mean_ns().saturating_add(above / 5 * 3)
    }
}

/// A segment that repeats or comes late.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sending<'a> {
    pub(crate) now: u64,
    /// Time since the direction's last data or the last acknowledgement with new information.
    pub(crate) quiet_ns: u64,
    /// Time since the cumulative acknowledgement last advanced.
    pub(crate) unmoved_ns: u64,
    pub(crate) first: u64,
    pub(crate) end: u64,
    pub(crate) added: &'a Added,
    /// Begins at the lowest unacknowledged octet.
    pub(crate) at_head: bool,
    /// The end of what was sent before.
    pub(crate) highest: u64,
    pub(crate) syn: bool,
    pub(crate) sack_permitted: bool,
    /// Both ends' SYNs were seen, and not both permit SACK.
    pub(crate) sack_refused: bool,
    pub(crate) duplicate_acks: u32,
    pub(crate) tsval: u32,
    pub(crate) ip_id: u16,
    /// Its length in segments of the sender's size; more than one before a network card segmented it.
    pub(crate) segments: u64,
    /// RTTs of this direction's half of the path and of the other's.
    pub(crate) here: &'a Rtt,
    pub(crate) there: &'a Rtt,
}

/// One direction's retransmissions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Repairs {
    pub(crate) counts: Retransmits,
    /// Number of classifications proved by the capture, and of all.
    pub(crate) certain: u64,
    pub(crate) judged: u64,
    /// Gaps filled: the loss was before the capture.
    pub(crate) filled: u64,
    state: State,
    probed: bool,
    /// When the newest segment known to be delivered was sent.
    delivered_ns: u64,
    /// When the last timeout sent its first segment.
    timeout_ns: u64,
    /// TSval of the segment retransmitted after a timeout, until the next acknowledgement.
    timeout_tsval: Option<u32>,
    recent: VecDeque<(u64, u64, u64)>,
}

impl Repairs {
    /// Processes a segment that repeats octets or comes after later ones.
    pub(crate) fn sent(&mut self, s: &Sending<'_>) {
        let judged = match (&s.added.repeats, &s.added.above) {
            (Some(known), _) => self.repeat(s, known),
            (None, Some(above)) => match self.gap(s, above) {
                Ok(judged) => {
                    self.filled += 1;
                    judged
                }
                Err(certain) => {
                    self.counts.reordered += s.segments;
                    self.judged += 1;
                    self.certain += u64::from(certain);
                    return;
                }
            },
            // Behind the end of what was seen, of a burst lost to its end.
            (None, None) => {
                self.filled += 1;
                (if self.timed_out(s) { Cause::Rto } else { Cause::Fast }, false)
            }
        };
        self.count(s, judged);
    }

    fn count(&mut self, s: &Sending<'_>, (cause, certain): Judged) {
        self.judged += 1;
        self.certain += u64::from(certain);
        match cause {
            Cause::Fast => {
                self.counts.fast += s.segments;
                if self.state == State::Open {
                    self.state = State::Fast(s.highest);
                }
            }
            Cause::Tlp => {
                self.counts.tlp += s.segments;
                self.probed = true;
            }
            Cause::Rto => {
                self.counts.rto += s.segments;
                let follows = matches!(self.state, State::Loss(until) if s.first < until);
                let fired = s.quiet_ns >= s.here.with(s.there).silence_ns()
                    || s.added.repeats.as_ref().is_some_and(|known| self.only_timer(s, known));
                if !follows || fired {
                    self.counts.timeouts += 1;
                    self.timeout_ns = s.now;
                    self.state = State::Loss(s.highest);
                    self.timeout_tsval = (s.tsval != 0).then_some(s.tsval);
                }
            }
        }
        if self.recent.len() == RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back((s.first, s.end, s.segments));
    }

    fn repeat(&self, s: &Sending<'_>, known: &Known) -> Judged {
        if s.syn || matches!(self.state, State::Loss(until) if s.first < until) {
            return (Cause::Rto, true);
        }
        let rtt = s.here.with(s.there);
        let overtaken = self.delivered_ns > known.segment.sent_ns || s.duplicate_acks >= DUPLICATE_ACKS;
        let may_probe =
            s.end >= s.highest && s.sack_permitted && self.state == State::Open && !self.probed && !overtaken;
        if s.quiet_ns >= rtt.silence_ns() {
            return if may_probe { (Cause::Tlp, true) } else { (Cause::Rto, s.at_head) };
        }
        if self.only_timer(s, known) {
            return (Cause::Rto, known.segment.again > 0);
        }
        // A probe waits for two RTTs (RFC 8985, section 7.2).
        if may_probe && s.quiet_ns >= rtt.mean_ns() + rtt.mean_ns() / 5 {
            return (Cause::Tlp, true);
        }
        if overtaken || matches!(self.state, State::Fast(until) if s.first < until) {
            return (Cause::Fast, true);
        }
        if s.at_head && s.now.saturating_sub(known.segment.sent_ns) >= rtt.silence_ns() {
            return (Cause::Rto, false);
        }
        (if may_probe { Cause::Tlp } else { Cause::Fast }, false)
    }

    /// Whether the timer sent this: without SACK nothing else sends a lost retransmission again, and duplicate
    /// acknowledgements, which let new data out, do not restart it (RFC 6582, section 3.2).
    fn only_timer(&self, s: &Sending<'_>, known: &Known) -> bool {
        let before = known.segment.sent_ns;
        let again = known.segment.again > 0 && before >= self.timeout_ns;
        let timer_ns = s.unmoved_ns.min(s.now.saturating_sub(before));
        s.sack_refused && s.at_head && (again || timer_ns >= s.here.with(s.there).silence_ns())
    }

    /// Classifies a segment that fills a gap; `Err` if it was only reordered.
    fn gap(&self, s: &Sending<'_>, above: &Known) -> Result<Judged, bool> {
        let certain = sent_after(s, above).map(|after| if after { Ok(()) } else { Err(true) }).transpose()?.is_some();
        if !certain {
            // A repair is triggered by what came after the gap, so it takes the path back to the sender and here again.
            let asked_ns = s.now.saturating_sub(above.segment.sent_ns);
            if s.there.least_ns().is_some_and(|least| asked_ns < least / 10 * 9) {
                return Err(true);
            }
        }
        Ok((if self.timed_out(s) { Cause::Rto } else { Cause::Fast }, certain))
    }

    /// Whether a repair belongs to a timeout.
    fn timed_out(&self, s: &Sending<'_>) -> bool {
        matches!(self.state, State::Loss(until) if s.first < until) || s.quiet_ns >= s.here.with(s.there).silence_ns()
    }

    /// An acknowledgement moved to `edge`, or reported segments of which the newest was sent at `newest_ns`.
    pub(crate) fn acknowledged(&mut self, edge: u64, advanced: bool, newest_ns: Option<u64>, tsecr: Option<u32>) {
        self.delivered_ns = self.delivered_ns.max(newest_ns.unwrap_or(0));
        if !advanced {
            return;
        }
        self.probed = false;
        // The echo is older than the retransmission: the original had arrived (RFC 3522).
        let needless = self.timeout_tsval.take().zip(tsecr).is_some_and(|(sent, echo)| later(sent, echo));
        match self.state {
            State::Loss(_) if needless => self.state = State::Open,
            State::Fast(until) | State::Loss(until) if edge >= until => self.state = State::Open,
            _ => {}
        }
    }

    /// A D-SACK block: the receiver got these octets twice.
    pub(crate) fn twice(&mut self, left: u64, right: u64) {
        let named = self.recent.iter().rposition(|&(first, end, _)| first < right && left < end);
        if let Some((_, _, segments)) = named.and_then(|i| self.recent.remove(i)) {
            self.counts.spurious += segments;
        }
    }
}

/// Whether `s` was sent after the segment `above` the gap it fills; `None` if neither timestamps nor identification show it.
fn sent_after(s: &Sending<'_>, above: &Known) -> Option<bool> {
    let other = &above.segment;
    if above.acked {
        return None;
    }
    if s.tsval != 0 && other.tsval != 0 && s.tsval != other.tsval {
        return Some(later(s.tsval, other.tsval));
    }
    // Linux increments the identification by one per segment of a connection; a distant one is drawn at random.
    const NEAR: i16 = 2_048;
    let ahead = s.ip_id.wrapping_sub(other.ip_id) as i16;
    (s.ip_id != 0 && other.ip_id != 0 && ahead != 0 && (-NEAR..NEAR).contains(&ahead)).then_some(ahead > 0)
}

#[cfg(test)]
#[path = "repair_tests.rs"]
mod tests;
