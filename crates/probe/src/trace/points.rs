//! The contents of tcptrace's graphs, as points: sequence space, RTTs, outstanding data and segment sizes over time.

use super::capture::{self, CaptureError};
use super::connection::Table;
use super::half::SegmentFate;
use super::packet::{self, Frame, Segment};
use std::collections::BTreeMap;
use std::io::Read;

/// Maximum number of points of one kind; beyond it every other one is dropped, repeatedly.
pub const POINTS_MAX: usize = 1 << 16;

/// Points, thinned evenly when there are many.
#[derive(Clone, Debug)]
struct Thinned<T> {
    kept: Vec<T>,
    every: u64,
    seen: u64,
}

impl<T> Default for Thinned<T> {
    fn default() -> Self {
        Self { kept: Vec::new(), every: 1, seen: 0 }
    }
}

impl<T> Thinned<T> {
    fn add(&mut self, point: T) {
        if self.seen.is_multiple_of(self.every) {
            if self.kept.len() == POINTS_MAX {
                let mut index = 0;
                self.kept.retain(|_| {
                    index += 1;
                    index % 2 == 1
                });
                self.every *= 2;
            }
            if self.seen.is_multiple_of(self.every) {
                self.kept.push(point);
            }
        }
        self.seen += 1;
    }
}

/// Vertical strokes of a time-sequence graph: seconds, first octet, end.
pub type Segments = Vec<(f64, u64, u64)>;

/// One direction's points; seconds since the connection's first packet, octets since the direction's first.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Direction {
    /// Segments seen for the first time.
    pub data: Segments,
    /// Segments that repeat octets.
    pub again: Segments,
    /// Segments that came after later ones.
    pub late: Segments,
    /// SACK blocks.
    pub sacks: Segments,
    /// Acknowledged octets.
    pub acks: Vec<(f64, u64)>,
    /// The end of the advertised window.
    pub windows: Vec<(f64, u64)>,
    /// RTTs, milliseconds.
    pub rtt_ms: Vec<(f64, f64)>,
    /// Octets sent and not acknowledged.
    pub outstanding: Vec<(f64, u64)>,
    /// Octets of data of each segment, with its time; new data only where throughput is meant.
    pub sizes: Vec<(f64, u64)>,
    /// New octets per tenth of a second, which is the resolution of a graph for a connection of any length.
    pub octets: Vec<(f64, u64)>,
}

/// Width of a bin of [`Direction::octets`], seconds.
pub const BIN_S: f64 = 0.1;
/// Maximum number of bins; anything later than an hour and 49 minutes is in the last one.
const BINS_MAX: u64 = 1 << 16;

#[derive(Default)]
struct Collector {
    origin: Option<u64>,
    acked: u64,
    data: Thinned<(f64, u64, u64)>,
    again: Thinned<(f64, u64, u64)>,
    late: Thinned<(f64, u64, u64)>,
    sacks: Thinned<(f64, u64, u64)>,
    acks: Thinned<(f64, u64)>,
    windows: Thinned<(f64, u64)>,
    rtt_ms: Thinned<(f64, f64)>,
    outstanding: Thinned<(f64, u64)>,
    sizes: Thinned<(f64, u64)>,
    bins: BTreeMap<u64, u64>,
}

impl Collector {
    /// Octets of this direction relative to the first that was seen.
    fn relative(&mut self, at: u64) -> u64 {
        at.saturating_sub(*self.origin.get_or_insert(at))
    }
    fn sent(&mut self, s: &Segment, seen: &SegmentFate, t: f64) {
        if s.data == 0 {
            return;
        }
        let octets = u64::from(s.data);
        let stroke = (t, self.relative(seen.first), self.relative(seen.end));
        self.sizes.add((t, octets));
        if seen.again {
            self.again.add(stroke);
            return;
        }
        if seen.out_of_order {
            self.late.add(stroke);
        } else {
            self.data.add(stroke);
        }
        *self.bins.entry(((t / BIN_S) as u64).min(BINS_MAX)).or_default() += octets;
        self.outstanding.add((t, stroke.2.saturating_sub(self.acked)));
    }
    /// Records the other direction's acknowledgement of this one's octets.
    fn acknowledged(&mut self, s: &Segment, seen: &SegmentFate, t: f64) {
        if let Some(ns) = seen.rtt_ns {
            self.rtt_ms.add((t, ns as f64 / 1e6));
        }
        let (Some(ack), Some(origin)) = (seen.ack, self.origin) else { return };
        let octets = ack.saturating_sub(origin);
        self.acked = self.acked.max(octets);
        self.acks.add((t, octets));
        self.windows.add((t, octets + seen.window));
        for &(left, right) in s.options.sacks() {
            let near = |edge: u32| octets.wrapping_add_signed(i64::from(edge.wrapping_sub(s.ack) as i32));
            if near(left) < near(right) {
                self.sacks.add((t, near(left), near(right)));
            }
        }
    }
    fn done(self) -> Direction {
        Direction {
            data: self.data.kept,
            again: self.again.kept,
            late: self.late.kept,
            sacks: self.sacks.kept,
            acks: self.acks.kept,
            windows: self.windows.kept,
            rtt_ms: self.rtt_ms.kept,
            outstanding: self.outstanding.kept,
            sizes: self.sizes.kept,
            octets: self.bins.into_iter().map(|(bin, n)| (bin as f64 * BIN_S, n)).collect(),
        }
    }
}

/// Reads a capture again and collects the points of `chosen` connections, numbered as in [`super::Trace`].
///
/// Both directions of each, in the order of `chosen`. `go_on` is called as in [`super::analyse`].
pub fn points(
    file: impl Read + Send,
    chosen: &[usize],
    mut go_on: impl FnMut(u64) -> bool,
) -> Result<Vec<[Direction; 2]>, CaptureError> {
    let mut table = Table::default();
    let mut collected: BTreeMap<usize, [Collector; 2]> =
        chosen.iter().map(|&at| (at, <[Collector; 2]>::default())).collect();
    let mut packets = 0_u64;
    capture::packets(file, |packet| {
        packets += 1;
        let now = packet.unix_ns;
        if let Ok(Frame::Tcp(s)) = packet.link.map(|link| packet::read(link, packet.bytes, packet.octets))
            && let Some((at, way, seen)) = table.segment(&s, now)
            && !seen.copy
            && let Some(both) = collected.get_mut(&at)
        {
            let t = now.saturating_sub(table.connections[at].first_ns) as f64 / 1e9;
            both[way].sent(&s, &seen, t);
            both[1 - way].acknowledged(&s, &seen, t);
        }
        !packets.is_multiple_of(super::PACKETS_PER_STEP) || go_on(packets)
    })?;
    let mut done = |at: &usize| collected.remove(at).unwrap_or_default().map(Collector::done);
    Ok(chosen.iter().map(&mut done).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_evenly_spaced_points() {
        let mut thinned = Thinned::default();
        for i in 0..5 * POINTS_MAX as u64 {
            thinned.add(i);
        }
        assert!(thinned.kept.len() <= POINTS_MAX && thinned.kept.len() > POINTS_MAX / 2);
        let step = thinned.kept[1];
        assert!(thinned.kept.windows(2).all(|w| w[1] - w[0] == step));
    }
}
