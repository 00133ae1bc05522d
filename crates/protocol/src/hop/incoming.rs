//! The receiving half of a flow: reassembly, credit and what a receipt says.

use super::ranges::RangeSet;
use super::types::Path;
use std::collections::VecDeque;
use wavelane_base::{Instant, Octets, Rate, Span};

/// Most byte ranges held above the cumulative offset of one flow ...
pub(super) const HELD_RANGES_MAX: usize = 1024;
/// ... and so many, and one more for so many bytes held: telling bytes apart takes no more memory than they do.
const HELD_RANGES_MIN: usize = 64;
/// See [`HELD_RANGES_MIN`].
const HELD_RANGE_OCTETS: usize = 64;
/// Least credit a flow is given while its reader reads: one parcel.
pub(super) const CREDIT_FLOOR: u64 = wavelane_wire::frame::PARCEL_MAX as u64;
/// What a flow is assumed to need before it was observed.
pub(super) const NEED_INITIAL: u64 = 256 << 10;
/// ... on a round trip of up to this; on a longer one it is more in proportion ...
const NEED_RTT: Span = Span::from_millis(100);
/// ... up to this.
const NEED_INITIAL_MAX: u64 = 2 << 20;
/// The most one flow can need.
pub(super) const NEED_MAX: u64 = 64 << 20;
/// Longest delay of a receipt for new data.
pub(super) const RECEIPT_DELAY: Span = Span::from_millis(25);
/// Buffers whose capacity stays above this while empty are given back.
pub(super) const IDLE_CAPACITY: usize = 64 << 10;
/// Payload a full datagram carries, for counting packets per BDP.
pub(super) const PACKET_PAYLOAD: u64 = 1_172;

/// Room for unread bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnreadRoom {
    /// What any one flow may hold.
    pub(super) flow: u64,
    /// What all flows together may add.
    pub(super) pool: u64,
}

/// Why received bytes were not kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Dropped {
    BeyondCredit,
    AfterFinish,
    RangesFull,
    PoolFull,
}

/// What taking a data frame did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Taken {
    /// Bytes that were new.
    pub(super) fresh: u64,
    /// Bytes that were held or read already.
    pub(super) duplicate: u64,
}

/// The receiving half.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    /// Bytes the owner has read: the offset of `buf`'s first byte.
    read: u64,
    /// Every byte below is held or was read.
    cumulative: u64,
    /// Bytes from `read` on; between `cumulative` and its end only those in `held` mean something.
    buf: VecDeque<u8>,
    /// Ranges held above `cumulative`.
    held: RangeSet,
    /// The direction's length, once known.
    finish: Option<u64>,
    /// Credit promised: never withdrawn.
    credit: u64,
    /// Highest block number offered so far, and whether that is a micro-block.
    block: Option<u64>,
    micro: bool,
    /// A receipt shall go at once when `cumulative` reaches this.
    prompt_at: Option<u64>,
    /// Bytes within the credit were dropped because the flow may not hold so many unread bytes now.
    pressed: bool,
    /// The credit of the newest receipt.
    told: u64,
    /// The owner has read the end.
    pub(super) end_read: bool,
    need: u64,
    epoch_start: Instant,
    epoch_octets: u64,
    /// A receipt is to be written now.
    pub(super) receipt_now: bool,
    /// Or at the latest then.
    pub(super) receipt_at: Option<Instant>,
    /// Serial of the newest receipt, and whether its fate is open.
    receipt_serial: u64,
    receipt_flying: bool,
    /// Whether a receipt that said `Complete` is known to have arrived.
    pub(super) complete_arrived: bool,
    complete_serial: Option<u64>,
}

impl Incoming {
    /// Bytes of memory that unread data takes.
    pub(super) fn buffered(&self) -> u64 {
        self.buf.len() as u64
    }
    pub(super) fn cumulative(&self) -> u64 {
        self.cumulative
    }
    pub(super) fn credit(&self) -> u64 {
        self.credit
    }
    pub(super) fn held(&self) -> &RangeSet {
        &self.held
    }
    /// Every byte up to the end is held.
    pub(super) fn is_complete(&self) -> bool {
        self.finish == Some(self.cumulative)
    }
    /// Whether a read would say something.
    pub(super) fn readable(&self) -> bool {
        self.read < self.cumulative || (self.is_complete() && !self.end_read)
    }
    /// The owner has every byte there will be.
    pub(super) fn is_all_read(&self) -> bool {
        self.finish == Some(self.read)
    }
    /// At zero credit, or unable to use what was promised.
    pub(super) fn is_stalled(&self) -> bool {
        (self.pressed || self.credit <= self.cumulative) && !self.is_complete()
    }
    /// Bytes the flow may hold unread.
    pub(super) fn cap(&self, room: UnreadRoom) -> u64 {
        room.flow.min(self.buffered() + room.pool).max(CREDIT_FLOOR)
    }
    /// The credit to tell now.
    pub(super) fn tell_credit(&mut self, cap: u64) -> u64 {
        self.told = if self.pressed { self.pressed_credit(cap) } else { self.credit };
        self.told
    }
    /// The promise was more than can be held now: says so at once, or the sender would repeat for ever what is
    /// dropped again and again.
    pub(super) fn press(&mut self) {
        self.receipt_now |= !self.pressed;
        self.pressed = true;
    }
    /// Looks again, given that the flow may hold `cap` bytes now: whether the sender is to hear of it.
    pub(super) fn relieve(&mut self, cap: u64) -> bool {
        if !self.pressed {
            return false;
        }
        self.pressed = self.credit > self.read + cap;
        let gain = self.pressed_credit(cap).saturating_sub(self.told);
        !self.pressed || gain * 4 >= cap
    }
    /// While pressed: the bytes that would be kept.
    fn pressed_credit(&self, cap: u64) -> u64 {
        self.cumulative.max(self.read + cap).min(self.credit)
    }

    /// Takes `bytes` at `offset`. Bytes that are held already win over new ones. `room` is what the pool still has.
    pub(super) fn take(&mut self, now: Instant, offset: u64, bytes: &[u8], room: u64) -> Result<Taken, Dropped> {
        let end = offset.saturating_add(bytes.len() as u64);
        if end > self.credit {
            return Err(Dropped::BeyondCredit);
        }
        if self.finish.is_some_and(|finish| end > finish) {
            return Err(Dropped::AfterFinish);
        }
        let from = offset.max(self.cumulative);
        let gaps = if from < end { self.held.gaps(from, end) } else { Vec::new() };
        let fresh: u64 = gaps.iter().map(|(s, e)| e - s).sum();
        let taken = Taken { fresh, duplicate: bytes.len() as u64 - fresh };
        if fresh == 0 {
            return Ok(taken);
        }
        let ranges_max = (HELD_RANGES_MIN + self.buf.len() / HELD_RANGE_OCTETS).min(HELD_RANGES_MAX);
        if from > self.cumulative && self.held.count() >= ranges_max && !self.held.touches(from, end) {
            return Err(Dropped::RangesFull);
        }
        let growth = (end - self.read).saturating_sub(self.buffered());
        if growth > room && end > self.read + CREDIT_FLOOR {
            return Err(Dropped::PoolFull);
        }
        self.buf.resize(self.buf.len() + growth as usize, 0);
        for (s, e) in gaps {
            self.copy_in(s, &bytes[(s - offset) as usize..(e - offset) as usize]);
        }
        self.held.insert(from, end);
        if let Some((s, e)) = self.held.first()
            && s <= self.cumulative
        {
            self.cumulative = e;
            self.held.pop_first();
        }
        self.epoch_octets += fresh;
        if self.is_complete() || self.prompt_at.is_some_and(|at| self.cumulative >= at) {
            self.prompt_at = None;
            self.receipt_now = true;
        } else {
            self.receipt_within(now, RECEIPT_DELAY);
        }
        Ok(taken)
    }

    fn copy_in(&mut self, offset: u64, bytes: &[u8]) {
        let at = (offset - self.read) as usize;
        let (front, back) = self.buf.as_mut_slices();
        let in_front = front.len().saturating_sub(at).min(bytes.len());
        if in_front > 0 {
            front[at..at + in_front].copy_from_slice(&bytes[..in_front]);
        }
        if in_front < bytes.len() {
            let start = (at + in_front) - front.len();
            back[start..start + bytes.len() - in_front].copy_from_slice(&bytes[in_front..]);
        }
    }

    /// The peer says its direction is `length` bytes long. `false` if that contradicts what is known.
    pub(super) fn finish(&mut self, length: u64) -> bool {
        let top = self.held.descending().next().map_or(self.cumulative, |(_, e)| e);
        if self.finish.is_some_and(|known| known != length) || length < top {
            return false;
        }
        self.finish = Some(length);
        // Also when it was said before: the peer repeats it because a receipt of ours was lost.
        self.receipt_now = true;
        true
    }

    /// The peer offers a block. A repeated offer is a question and is answered at once.
    pub(super) fn offer(&mut self, now: Instant, block: u64, start: u64, length: Option<u64>, micro: bool) {
        let repeated = self.block.is_some_and(|seen| block <= seen);
        if !repeated {
            self.micro = micro;
        }
        self.block = Some(self.block.map_or(block, |seen| seen.max(block)));
        let end = length.map(|n| start.saturating_add(n));
        if repeated || (micro && end.is_some_and(|end| end <= self.cumulative)) {
            self.receipt_now = true;
        } else if micro && let Some(end) = end {
            self.prompt_at = Some(self.prompt_at.map_or(end, |at| at.max(end)));
        } else {
            self.receipt_within(now, RECEIPT_DELAY);
        }
    }

    /// The bytes that can be read, as the two halves of the ring.
    pub(super) fn unread(&self) -> (&[u8], &[u8]) {
        let n = (self.cumulative - self.read) as usize;
        let (front, back) = self.buf.as_slices();
        let in_front = n.min(front.len());
        (&front[..in_front], &back[..(n - in_front).min(back.len())])
    }
    /// Takes up to `octets` bytes as read.
    pub(super) fn consume(&mut self, octets: usize) -> usize {
        let n = octets.min((self.cumulative - self.read) as usize);
        self.buf.drain(..n);
        self.read += n as u64;
        if self.buf.is_empty() && self.buf.capacity() > IDLE_CAPACITY {
            self.buf = VecDeque::new();
        }
        n
    }

    /// Gives the buffer back; the flow is over.
    pub(super) fn discard(&mut self) {
        self.buf = VecDeque::new();
        self.held = RangeSet::default();
    }

    /// The credit we would promise now: what the path needs to stay full, within `share` of the pool.
    pub(super) fn credit_target(&mut self, now: Instant, path: &Path, share: u64) -> u64 {
        self.observe(now, path);
        self.read + self.need.min(share.max(CREDIT_FLOOR))
    }
    /// Raises the promise; a promise is never taken back.
    pub(super) fn promise(&mut self, target: u64) {
        self.credit = self.credit.max(target);
    }
    /// Whether the promise could grow by a quarter of the window.
    pub(super) fn credit_moved(&self, target: u64) -> bool {
        let window = target.saturating_sub(self.read);
        let gain = target.saturating_sub(self.credit);
        !self.is_complete() && gain > 0 && gain * 4 >= window
    }

    /// Once per round trip: what arrived in it, times what repair needs, is what the flow needs.
    fn observe(&mut self, now: Instant, path: &Path) {
        if self.need == 0 {
            self.epoch_start = now;
        }
        let least = need_least(path.rtt);
        self.need = self.need.max(least);
        let epoch = path.rtt.max(Span::from_millis(10));
        let age = now.since(self.epoch_start);
        if age < epoch {
            return;
        }
        let rate = Rate::of(Octets::new(self.epoch_octets), age);
        let need = need_for(rate.octets_in(epoch).get(), path.loss);
        // It grows at once and shrinks by an eighth per round trip in which something arrived.
        let kept = if self.epoch_octets > 0 { self.need - self.need / 8 } else { self.need };
        self.need = need.max(kept).clamp(least, NEED_MAX);
        self.epoch_start = now;
        self.epoch_octets = 0;
    }

    fn receipt_within(&mut self, now: Instant, delay: Span) {
        let at = now + delay;
        self.receipt_at = Some(self.receipt_at.map_or(at, |old| old.min(at)));
    }
    /// Only duplicates came: the peer does not know what we hold.
    pub(super) fn receipt_for_duplicate(&mut self, now: Instant) {
        if self.receipt_flying && self.micro {
            // A copy, most likely. If what we said of it is lost, that is found out and it is said again.
            return;
        }
        if self.is_complete() {
            self.receipt_now = true;
        } else {
            self.receipt_within(now, RECEIPT_DELAY);
        }
    }
    pub(super) fn receipt_written(&mut self, serial: u64) {
        self.receipt_now = false;
        self.receipt_at = None;
        self.receipt_serial = serial;
        self.receipt_flying = true;
        if self.is_complete() && self.complete_serial.is_none() {
            self.complete_serial = Some(serial);
        }
    }
    pub(super) fn receipt_delivered(&mut self, serial: u64) {
        if serial == self.receipt_serial {
            self.receipt_flying = false;
        }
        if self.complete_serial.is_some_and(|first| serial >= first) {
            self.complete_arrived = true;
        }
    }
    /// Only the newest receipt is worth repeating, with newer contents.
    pub(super) fn receipt_lost(&mut self, serial: u64) {
        if self.receipt_flying && serial == self.receipt_serial {
            self.receipt_flying = false;
            self.receipt_now = true;
        }
    }
    pub(super) fn tick(&mut self, now: Instant) {
        if self.receipt_at.is_some_and(|at| at <= now) {
            self.receipt_at = None;
            self.receipt_now = true;
        }
    }
}

/// What a flow is given while nothing, or little, was seen of it.
fn need_least(rtt: Span) -> u64 {
    let scaled = u128::from(NEED_INITIAL) * u128::from(rtt.as_nanos()) / u128::from(NEED_RTT.as_nanos());
    u64::try_from(scaled).unwrap_or(u64::MAX).clamp(NEED_INITIAL, NEED_INITIAL_MAX)
}

/// Window that keeps a path of `bdp` bytes per round trip full while repairs of repairs are under way:
/// BDP x (2 + ln(packets per BDP) / ln(1/p)). Integer binary logarithms serve: their ratio is the same.
pub(super) fn need_for(bdp: u64, loss: f64) -> u64 {
    let packets = (bdp / PACKET_PAYLOAD).max(1);
    // At least 1/1024 (loss is never known to be absent), at most 1/2.
    let inverse = (1.0 / loss.clamp(1.0 / 1024.0, 0.5)) as u64;
    let log_inverse = u64::from(inverse.max(2).ilog2());
    let log_packets = u64::from(packets.ilog2()) + 1;
    bdp.saturating_mul(2).saturating_add(bdp.saturating_mul(log_packets) / log_inverse)
}
