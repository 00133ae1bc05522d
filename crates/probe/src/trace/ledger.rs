//! The parts of one direction's sequence space that were seen and acknowledged.
//!
//! Sequence numbers are unwrapped to 64 bits. Below the acknowledged edge only ranges are kept; above it, every segment keeps when it was
//! last sent and how often.

use std::collections::VecDeque;

/// Maximum number of segments of one direction waiting for acknowledgement; the oldest beyond it are treated as acknowledged.
pub(crate) const FLIGHT_MAX: usize = 1 << 16;
/// Capacity for segments in flight that a direction keeps even when empty.
const ROOM_KEPT: usize = 64;
/// Maximum number of ranges below the acknowledged edge; the lowest gap beyond it is forgotten.
const ACKED_RANGES_MAX: usize = 256;

/// A segment seen and not acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sent {
    /// Its octets of sequence space.
    pub(crate) first: u64,
    pub(crate) end: u64,
    /// When it was last sent.
    pub(crate) sent_ns: u64,
    /// Number of retransmissions.
    pub(crate) again: u32,
    /// TSval of its first transmission, zero without.
    pub(crate) tsval: u32,
    /// IPv4 identification of its first transmission, zero without.
    pub(crate) ip_id: u16,
    /// A SACK block reported it.
    pub(crate) sacked: bool,
}

/// Classification of a segment when it is added to the ledger.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Added {
    /// Octets that were seen before.
    pub(crate) again_octets: u64,
    /// It begins before something that was already seen and fills a gap.
    pub(crate) out_of_order: bool,
    /// The first known segment it repeats, in its earlier state.
    pub(crate) repeats: Option<Known>,
    /// The known segment after the gap that it fills.
    pub(crate) above: Option<Known>,
}

/// Data of a known segment for comparison with another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Known {
    pub(crate) segment: Sent,
    /// Already acknowledged.
    pub(crate) acked: bool,
}

/// An acknowledgement as an RTT sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sample {
    /// Time since a segment that was sent once.
    Rtt { ns: u64, octets: u64 },
    /// For a segment that was sent several times; the time is since the last.
    Ambiguous { ns: u64 },
    /// An earlier part was sent later, so the time is not usable.
    AfterLoss,
}

/// Effect of an acknowledgement.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Acked {
    pub(crate) segments: u32,
    /// Segments acknowledged by an acknowledgement for a later one.
    pub(crate) cumulatively: u32,
    pub(crate) sample: Option<Sample>,
    /// When the newest of them was last sent.
    pub(crate) newest_ns: Option<u64>,
    /// It includes one that was sent only once.
    pub(crate) originals: bool,
}

/// Times between transmissions of the same octets.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Retries {
    /// The maximum number of retransmissions of a segment.
    pub(crate) most: u32,
    pub(crate) times: super::moments::Moments,
}

/// One direction's sequence space.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    acked: VecDeque<(u64, u64)>,
    flight: VecDeque<Sent>,
    /// When the newest acknowledged segment was last sent.
    acked_newest_ns: u64,
    pub(crate) retries: Retries,
    /// End of the highest SACK block whose segments are marked, by its left edge; see [`Ledger::sack`].
    marked: [(u64, u64); 4],
}

impl Ledger {
    /// The end of what was seen; `None` before anything was.
    pub(crate) fn highest(&self) -> Option<u64> {
        let acked = self.acked.back().map(|r| r.1);
        let flying = self.flight.back().map(|s| s.end);
        acked.max(flying)
    }
    /// The beginning of what was seen.
    pub(crate) fn lowest(&self) -> Option<u64> {
        let acked = self.acked.front().map(|r| r.0);
        let flying = self.flight.front().map(|s| s.first);
        acked.into_iter().chain(flying).min()
    }
    /// Number of segments waiting for acknowledgement.
    pub(crate) fn in_flight(&self) -> usize {
        self.flight.len()
    }
    /// The lowest segment waiting for acknowledgement.
    pub(crate) fn head(&self) -> Option<&Sent> {
        self.flight.front()
    }

    /// Records a segment of `end - first` octets, which must be more than none.
    pub(crate) fn add(&mut self, sent: Sent, room: usize) -> Added {
        let mut added = Added::default();
        if self.highest().is_none_or(|h| sent.first >= h) {
            self.flight.push_back(sent);
        } else {
            self.add_among(sent, &mut added);
        }
        while self.flight.len() > room {
            if let Some(oldest) = self.flight.pop_front() {
                self.settle(oldest);
            }
        }
        added
    }

    /// The lowest known segment that ends after `at`.
    fn next_known(&self, at: u64) -> Option<(Known, Option<usize>)> {
        let flying = self.flight.partition_point(|s| s.end <= at);
        let acked = self.acked.partition_point(|r| r.1 <= at);
        let range = self.acked.get(acked).map(|&(first, end)| {
            let sent_ns = self.acked_newest_ns;
            Sent { first, end, sent_ns, again: 0, tsval: 0, ip_id: 0, sacked: true }
        });
        match (self.flight.get(flying), range) {
            (Some(s), Some(r)) if r.first < s.first => Some((Known { segment: r, acked: true }, None)),
            (Some(s), _) => Some((Known { segment: *s, acked: false }, Some(flying))),
            (None, Some(r)) => Some((Known { segment: r, acked: true }, None)),
            (None, None) => None,
        }
    }

    /// Whether all these octets were seen.
    pub(crate) fn holds(&self, first: u64, end: u64) -> bool {
        let mut at = first;
        while at < end {
            match self.next_known(at) {
                Some((known, _)) if known.segment.first <= at => at = known.segment.end,
                _ => return false,
            }
        }
        true
    }

    fn add_among(&mut self, sent: Sent, added: &mut Added) {
        let mut at = sent.first;
        while at < sent.end {
            let Some((known, flying)) = self.next_known(at) else {
                self.insert(Sent { first: at, ..sent });
                break;
            };
            let other = known.segment;
            if at < other.first {
                added.out_of_order |= sent.end < other.end;
                added.above = added.above.or(Some(known));
                self.insert(Sent { first: at, end: sent.end.min(other.first), ..sent });
                at = other.first;
                continue;
            }
            if added.repeats.is_none() {
                added.repeats = Some(known);
                self.sent_again(flying, sent.sent_ns);
            } else if let Some(other) = flying.and_then(|i| self.flight.get_mut(i)) {
                other.again += 1;
            }
            added.again_octets += sent.end.min(other.end) - at;
            at = other.end;
        }
    }

    fn sent_again(&mut self, flying: Option<usize>, now: u64) {
        match flying.and_then(|i| self.flight.get_mut(i)) {
            Some(other) => {
                other.again += 1;
                self.retries.most = self.retries.most.max(other.again);
                self.retries.times.add(now.saturating_sub(other.sent_ns));
                other.sent_ns = now;
            }
            None => self.acked_newest_ns = now,
        }
    }

    fn insert(&mut self, sent: Sent) {
        let at = self.flight.partition_point(|s| s.first < sent.first);
        self.flight.insert(at, sent);
    }

    /// Moves a segment below the acknowledged edge.
    fn settle(&mut self, sent: Sent) {
        self.acked_newest_ns = self.acked_newest_ns.max(sent.sent_ns);
        match self.acked.back_mut() {
            Some(last) if last.1 == sent.first => last.1 = sent.end,
            Some(last) if sent.first < last.1 => self.settle_among(sent),
            _ => self.acked.push_back((sent.first, sent.end)),
        }
        if self.acked.len() > ACKED_RANGES_MAX
            && let Some(lowest) = self.acked.pop_front()
            && let Some(next) = self.acked.front_mut()
        {
            next.0 = lowest.0;
        }
    }

    fn settle_among(&mut self, sent: Sent) {
        let at = self.acked.partition_point(|r| r.0 < sent.first);
        self.acked.insert(at, (sent.first, sent.end));
        // Adjacent ranges are merged.
        for at in [at, at.saturating_sub(1)] {
            if let (Some(&low), Some(&high)) = (self.acked.get(at), self.acked.get(at + 1))
                && low.1 >= high.0
            {
                self.acked[at].1 = low.1.max(high.1);
                self.acked.remove(at + 1);
            }
        }
    }

    /// Processes an acknowledgement of everything before `ack`.
    pub(crate) fn ack(&mut self, ack: u64, now: u64) -> Acked {
        let mut done = Acked::default();
        while let Some(&sent) = self.flight.front()
            && sent.first < ack
        {
            self.flight.pop_front();
            done.segments += 1;
            done.originals |= sent.again == 0;
            done.newest_ns = done.newest_ns.max(Some(sent.sent_ns));
            let newest_ns = self.acked_newest_ns.max(sent.sent_ns);
            if sent.end == ack {
                let ns = now.saturating_sub(sent.sent_ns);
                done.sample = Some(if newest_ns > sent.sent_ns {
                    Sample::AfterLoss
                } else if sent.again == 0 {
                    Sample::Rtt { ns, octets: sent.end - sent.first }
                } else {
                    Sample::Ambiguous { ns }
                });
            } else {
                done.cumulatively += 1;
            }
            self.settle(sent);
        }
        // Many connections that once had much in flight must not keep the capacity for it.
        if self.flight.capacity() > ROOM_KEPT && self.flight.len() < self.flight.capacity() / 8 {
            self.flight.shrink_to(self.flight.capacity() / 4);
        }
        done
    }

    /// Whether an acknowledged range ends exactly at `ack`.
    pub(crate) fn acked_to(&self, ack: u64) -> bool {
        let at = self.acked.partition_point(|r| r.1 < ack);
        self.acked.get(at).is_some_and(|r| r.1 == ack)
    }
    /// Whether something acknowledged begins before `ack`.
    pub(crate) fn acked_before(&self, ack: u64) -> bool {
        self.acked.front().is_some_and(|r| r.0 < ack)
    }

    /// Marks the segments that a SACK block reports; returns when the newest of them was last sent, if it was sent once.
    pub(crate) fn sack(&mut self, left: u64, right: u64) -> Option<u64> {
        // A block that has only grown since is not scanned again.
        let known = self.marked.iter().position(|m| m.0 == left && m.1 <= right);
        let from = known.map_or(left, |i| self.marked[i].1);
        match known {
            Some(i) => self.marked[i].1 = right,
            None => {
                self.marked.rotate_right(1);
                self.marked[0] = (left, right);
            }
        }
        let start = self.flight.partition_point(|s| s.first < from);
        let mut newest = None;
        for sent in self.flight.range_mut(start..).take_while(|s| s.end <= right) {
            if !sent.sacked {
                sent.sacked = true;
                newest = newest.max((sent.again == 0).then_some(sent.sent_ns));
            }
        }
        newest
    }
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
