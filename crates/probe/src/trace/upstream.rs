//! Estimates how far the sender must have sent, from IP identifications that never arrived.
//!
//! A burst whose end is lost leaves no gap: its repair looks like new data. Linux increments the identification by one per segment of a
//! connection, so a step of more than one gives the number of losses before the capture. Those that are not in a gap are beyond the highest
//! octet seen, and later segments there are retransmissions.

/// Number of consecutive steps of one before the counter is assumed to be the connection's own.
const BELIEVED: u32 = 8;
/// A larger step is another counter, not a loss.
const STEP_MAX: u16 = 512;

/// One direction's identifications.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Upstream {
    last_id: Option<u16>,
    believed: u32,
    /// Lost and not yet placed.
    lost: u64,
    /// The estimated end of what was sent.
    sent_to: u64,
    /// Part of that estimate that may be lost retransmissions instead: octets lost while gaps were being filled.
    doubtful: u64,
    /// A gap was seen, so there is loss at all.
    lossy: bool,
}

impl Upstream {
    /// A packet with identification `id` came.
    pub(crate) fn identified(&mut self, id: u16) {
        if id == 0 {
            *self = Self::default();
            return;
        }
        let step = self.last_id.map_or(1, |last| id.wrapping_sub(last));
        match step {
            1 => self.believed = self.believed.saturating_add(1),
            2..=STEP_MAX => self.lost += u64::from(step - 1),
            // Reordered or a duplicate: it was counted as lost when a later one came.
            _ if step.wrapping_neg() <= STEP_MAX => {
                self.lost = self.lost.saturating_sub(1);
                return;
            }
            _ => *self = Self::default(),
        }
        self.last_id = Some(id);
    }

    /// A segment came that begins at `first`, where everything before `highest` was seen; whether it repeats what was
    /// sent, although nothing of it was seen.
    pub(crate) fn arrived(&mut self, first: u64, end: u64, highest: u64, size: u64) -> bool {
        let lost = core::mem::take(&mut self.lost);
        if self.believed < BELIEVED {
            self.sent_to = end.max(highest);
            return false;
        }
        self.lossy |= first > highest;
        self.sent_to = self.sent_to.max(highest);
        let repeats = first < self.sent_to && self.lossy;
        if repeats {
            // What was lost between two retransmissions was new: retransmissions go first, and most of them arrive.
            self.sent_to += lost * size;
            self.doubtful += if first < highest { lost * size } else { 0 };
        }
        self.sent_to = self.sent_to.max(end);
        if end >= self.sent_to {
            self.lossy = first > highest;
            self.doubtful = 0;
        }
        repeats && first >= highest
    }

    /// A gap was filled so late that a repetition before it must have been lost, which was not new data then.
    pub(crate) fn lost_again(&mut self, highest: u64, size: u64) {
        let octets = size.min(self.doubtful);
        self.doubtful -= octets;
        self.sent_to = self.sent_to.saturating_sub(octets).max(highest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Segments of 10 octets; returns which of them are taken for repetitions.
    fn taken(steps: &[(u16, u64)]) -> Vec<u64> {
        let (mut u, mut highest) = (Upstream::default(), 0);
        let mut seen = |id: u16, first: u64| {
            u.identified(id);
            let again = u.arrived(first, first + 10, highest, 10);
            highest = highest.max(first + 10);
            again
        };
        for i in 0..20 {
            assert!(!seen(100 + i, u64::from(i) * 10));
        }
        steps.iter().filter(|&&(id, first)| seen(id, first)).map(|s| s.1).collect()
    }

    #[test]
    fn a_burst_lost_to_its_end_is_upstream_loss() {
        // 200 and 220 to 240 are lost, and what is sent between their repetitions too: 250, 260, 270.
        let steps = [
            (121, 210),
            (125, 200),
            (127, 220),
            (129, 230),
            (131, 240),
            (132, 250),
            (133, 260),
            (134, 270),
            (135, 280),
        ];
        assert_eq!(taken(&steps), [220, 230, 240, 250, 260, 270]);
    }

    #[test]
    fn a_shared_ip_id_counter_needs_a_gap() {
        assert_eq!(taken(&[(130, 200), (133, 210), (140, 220)]), [0; 0]);
        assert_eq!(taken(&[(9_000, 200), (31, 210), (0, 220), (5, 230)]), [0; 0]);
    }

    #[test]
    fn a_gap_with_its_repair_leaves_no_trace() {
        assert_eq!(taken(&[(121, 210), (122, 200), (123, 220), (124, 230)]), [0; 0]);
        // Overtaken on the way: the identification comes late too.
        assert_eq!(taken(&[(121, 210), (120, 200), (122, 220)]), [0; 0]);
    }
}
