//! Counters of a direction; the names follow tcptrace's fields.

/// Counters of data and control.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) packets: u64,
    pub(crate) ip_octets: u64,
    pub(crate) resets: u64,
    pub(crate) acks: u64,
    pub(crate) pure_acks: u64,
    pub(crate) sack_segments: u64,
    pub(crate) dsack_segments: u64,
    pub(crate) sacks_sent: u64,
    pub(crate) most_sack_blocks: u64,
    pub(crate) unique_octets: u64,
    pub(crate) data_packets: u64,
    pub(crate) data_octets: u64,
    pub(crate) again_packets: u64,
    pub(crate) again_octets: u64,
    pub(crate) zero_window_probes: u64,
    pub(crate) zero_window_probe_octets: u64,
    pub(crate) out_of_order: u64,
    pub(crate) pushed: u64,
    pub(crate) syns: u64,
    pub(crate) fins: u64,
    pub(crate) urgent_packets: u64,
    pub(crate) urgent_octets: u64,
    pub(crate) largest: u64,
    pub(crate) smallest: u64,
    pub(crate) initial_octets: u64,
    pub(crate) initial_segments: u64,
    pub(crate) truncated_octets: u64,
    pub(crate) truncated_packets: u64,
    pub(crate) hardware_duplicates: u64,
    pub(crate) after_loss_acks: u64,
    pub(crate) cumulative: u64,
    pub(crate) duplicate_acks: u64,
    pub(crate) triple_duplicates: u64,
}

/// Statistics of the advertised window.
#[derive(Clone, Debug, Default)]
pub(crate) struct Window {
    pub(crate) most: u64,
    pub(crate) least: u64,
    pub(crate) sum: u64,
    pub(crate) zeros: u64,
    pub(crate) last: u64,
    /// Packets since the first scaled window.
    pub(crate) scaled_packets: Option<u64>,
}

/// Octets sent and not acknowledged.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outstanding {
    pub(crate) most: u64,
    pub(crate) least: u64,
    pub(crate) sum: u64,
    pub(crate) samples: u64,
    /// Octets times seconds.
    pub(crate) weighted: f64,
    last: Option<(u64, u64)>,
}

impl Outstanding {
    /// Adds outstanding octets from `now` on.
    pub(crate) fn add(&mut self, octets: u64, now: u64) {
        self.most = self.most.max(octets);
        if octets > 0 && (self.least == 0 || octets < self.least) {
            self.least = octets;
        }
        self.sum += octets;
        self.samples += 1;
        if let Some((at, before)) = self.last {
            self.weighted += before as f64 * (now.saturating_sub(at) as f64 / 1e9);
        }
        self.last = Some((now, octets));
    }
}
