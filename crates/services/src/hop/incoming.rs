//! The receiving half of a flow: reassembly, credit and what a receipt says.

mod holes;

use super::memory::{give_back, make_room};
use super::relay::{GRANT_MAX, Held};
use super::shares::{FLOOR, UnreadRoom};
use super::types::{Onward, Window};
use holes::Holes;
use std::collections::VecDeque;
use wavelane_base::RangeSet;
use wavelane_base::{Instant, Octets, Rate, Span};
use wavelane_transport::PathView;

/// Byte ranges that one flow may hold above its cumulative offset at no charge ...
pub(super) const HELD_RANGES_FREE: usize = 64;
/// ... each further one counts as this many bytes in the pool, which is more than it takes.
pub(super) const HELD_RANGE_OCTETS: u64 = 64;
/// What a flow is assumed to need before it was observed.
pub(super) const NEED_INITIAL: u64 = 256 << 10;
/// ... for an RTT of up to this; for a longer one it grows in proportion ...
const NEED_RTT: Span = Span::from_millis(100);
/// ... up to this.
const NEED_INITIAL_MAX: u64 = 2 << 20;
/// Arrivals are evaluated once per RTT, and on a path this long this many times per RTT ...
const LONG: Span = Span::from_millis(200);
const EPOCHS_LONG: u64 = 4;
/// ... but over no less than this, and over this in a long path's first RTT.
const EPOCH_MIN: Span = Span::from_millis(10);
/// Longest delay of a receipt for new data.
pub(super) const RECEIPT_DELAY: Span = Span::from_millis(25);
/// Payload a full datagram carries, for counting packets per BDP.
pub(super) const PACKET_PAYLOAD: u64 = 1_172;

/// Why received bytes were not kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Dropped {
    BeyondCredit,
    AfterFinish,
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
    /// Receipted bytes that are gone, or are asked for again.
    holes: Holes,
    /// The direction's length, once known.
    finish: Option<u64>,
    /// Credit granted: never withdrawn.
    credit: u64,
    /// Highest block number offered so far, and whether that is a micro-block.
    block: Option<u64>,
    micro: bool,
    /// A receipt is sent at once when `cumulative` reaches this.
    prompt_at: Option<u64>,
    /// Bytes within the credit were dropped because they exceed what the flow may hold unread now.
    pressed: bool,
    /// The credit of the newest receipt.
    told: u64,
    /// The owner has read the end.
    pub(super) end_read: bool,
    need: u64,
    /// What bounds the credit besides the pool.
    pub(super) window: Window,
    /// What bounds it while the owner grants blocks one by one.
    pub(super) withheld: Option<Held>,
    /// It goes on by the same radio. Few flows do: the others have no memory for it.
    pub(super) ahead: Option<Box<Ahead>>,
    /// Its sender does not withhold: at its credit it asked without saying how much waits.
    pub(super) mute: bool,
    /// When a sender before a relay is let pass a few more bytes.
    pub(super) pass_at: Option<Instant>,
    /// When bytes first arrived, and the start of the current count.
    first_at: Option<Instant>,
    epoch_start: Instant,
    /// Bytes arrived and bytes read since then.
    epoch_arrived: u64,
    epoch_read: u64,
    /// A receipt is to be written now.
    pub(super) receipt_now: bool,
    /// Or at the latest then.
    pub(super) receipt_at: Option<Instant>,
    /// Minimum interval between receipts, if more than [`RECEIPT_DELAY`].
    apart: Span,
    /// Serial of the newest receipt, and whether it is still in flight.
    receipt_serial: u64,
    receipt_flying: bool,
    /// Whether a receipt with state `Complete` is known to have arrived.
    pub(super) complete_arrived: bool,
    complete_serial: Option<u64>,
}

/// What lies ahead of a flow that goes on by the same radio.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    pub(super) onward: Onward,
    /// When that last changed, or the turn that is to change it was here.
    pub(super) at: Option<Instant>,
    /// See [`Incoming::whole_at`].
    pub(super) whole_at: Option<u64>,
}

impl Incoming {
    /// Bytes of memory that unread data takes, including its range bookkeeping.
    pub(super) fn buffered(&self) -> u64 {
        self.octets() + self.ranges_octets()
    }
    fn octets(&self) -> u64 {
        self.buf.len() as u64
    }
    fn ranges_octets(&self) -> u64 {
        self.held.count().saturating_sub(HELD_RANGES_FREE) as u64 * HELD_RANGE_OCTETS
    }
    pub(super) fn cumulative(&self) -> u64 {
        self.cumulative
    }
    pub(super) fn credit(&self) -> u64 {
        self.credit
    }
    /// Bytes that the flow is granted beyond those read.
    #[cfg(test)]
    pub(super) fn window(&self) -> u64 {
        self.credit - self.read
    }
    pub(super) fn held(&self) -> &RangeSet {
        &self.held
    }
    /// Whether its reader has yet to prove that it reads, initially or again.
    pub(super) fn is_unproven(&self) -> bool {
        self.read == 0 || !self.buf.is_empty()
    }
    /// Every byte up to the end is held.
    pub(super) fn is_complete(&self) -> bool {
        self.finish == Some(self.cumulative)
    }
    /// Whether a read would return something.
    pub(super) fn readable(&self) -> bool {
        self.read < self.whole_end() || (self.is_all_read() && !self.end_read)
    }
    /// The owner has every byte there will be.
    pub(super) fn is_all_read(&self) -> bool {
        self.finish == Some(self.read)
    }
    /// At zero credit, or unable to hold what was granted.
    pub(super) fn is_stalled(&self) -> bool {
        (self.pressed || self.credit <= self.cumulative) && !self.is_complete()
    }
    /// Memory the flow may take.
    fn limit(&self, room: UnreadRoom) -> u64 {
        let may_hold = match self.window {
            Window::Path => self.need.min(room.share),
            Window::Octets(_) => self.credit - self.read,
            Window::Pool => room.share,
        };
        may_hold.max(room.part).min(self.buffered() + room.pool)
    }
    /// Bytes the flow may hold unread.
    pub(super) fn cap(&self, room: UnreadRoom) -> u64 {
        self.limit(room).saturating_sub(self.ranges_octets()).max(FLOOR)
    }
    /// The credit to tell now.
    pub(super) fn tell_credit(&mut self, cap: u64) -> u64 {
        let now = if self.pressed { self.pressed_credit(cap) } else { self.credit };
        let crumbs = self.pressed && (self.told.max(self.cumulative)..self.told + worth_telling(cap)).contains(&now);
        self.told = if crumbs { self.told } else { now };
        self.told
    }
    /// More was granted than can be held now: a receipt is sent at once, or the sender would retransmit for ever what is dropped
    /// each time.
    pub(super) fn press(&mut self) {
        self.receipt_now |= !self.pressed;
        self.pressed = true;
    }
    /// Re-evaluates, given that the flow may hold `cap` bytes now. Returns whether to tell the sender.
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

    /// Sets the interval between receipts that the return path allows.
    pub(super) fn set_apart(&mut self, apart: Span) {
        self.apart = apart;
    }
    /// A receipt that is due soon is sent now.
    pub(super) fn hasten(&mut self) {
        self.receipt_now |= self.receipt_at.take().is_some();
    }

    /// Takes `bytes` at `offset`. Bytes already held take precedence over new ones.
    pub(super) fn take(&mut self, now: Instant, offset: u64, bytes: &[u8], room: UnreadRoom) -> Result<Taken, Dropped> {
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
        let growth = (end - self.read).saturating_sub(self.octets());
        let apart = from > self.cumulative && !self.held.touches(from, end);
        let range = if apart && self.held.count() >= HELD_RANGES_FREE { HELD_RANGE_OCTETS } else { 0 };
        // The floor is for bytes, not for range bookkeeping.
        let within_floor = range == 0 && end <= self.read + FLOOR;
        if self.buffered() + growth + range > self.limit(room) && growth + range > 0 && !within_floor {
            return Err(Dropped::PoolFull);
        }
        make_room(&mut self.buf, growth as usize);
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
        if self.whole_at().is_some_and(|at| self.cumulative >= at) {
            self.turn_is_over(now);
        }
        self.first_at.get_or_insert(now);
        self.epoch_arrived += fresh;
        if self.is_complete() || self.prompt_at.is_some_and(|at| self.cumulative >= at) {
            self.prompt_at = None;
            self.receipt_at_once(now);
        } else {
            self.receipt_within(now, RECEIPT_DELAY);
        }
        Ok(taken)
    }

    /// A turn came, or ended before all of it did: what came may be read.
    pub(super) fn turn_is_over(&mut self, now: Instant) {
        if let Some(ahead) = &mut self.ahead {
            ahead.whole_at = None;
            ahead.at.get_or_insert(now);
        }
    }
    /// A turn of it is read only once every byte below was received.
    pub(super) fn whole_at(&self) -> Option<u64> {
        self.ahead.as_ref()?.whole_at
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
        // Also for a repeated Finish: the peer repeats it because a receipt of ours was lost.
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
        if repeated {
            self.receipt_now = true;
        } else if micro && end.is_some_and(|end| end <= self.cumulative) {
            self.receipt_at_once(now);
        } else if micro && let Some(end) = end {
            self.prompt_at = Some(self.prompt_at.map_or(end, |at| at.max(end)));
        } else {
            self.receipt_within(now, RECEIPT_DELAY);
        }
    }

    /// The bytes that can be read, as the two halves of the ring.
    pub(super) fn unread(&self) -> (&[u8], &[u8]) {
        let n = (self.whole_end() - self.read) as usize;
        let (front, back) = self.buf.as_slices();
        let in_front = n.min(front.len());
        (&front[..in_front], &back[..(n - in_front).min(back.len())])
    }
    /// Takes up to `octets` bytes as read.
    pub(super) fn consume(&mut self, octets: usize) -> usize {
        let n = octets.min((self.whole_end() - self.read) as usize);
        self.buf.drain(..n);
        self.read += n as u64;
        self.epoch_read += n as u64;
        give_back(&mut self.buf);
        n
    }

    /// Frees the buffer; the flow is over.
    pub(super) fn discard(&mut self) {
        self.buf = VecDeque::new();
        self.held = RangeSet::default();
        self.holes = Holes::default();
    }

    /// The credit we would grant now: what keeps the path full, as far as the reader keeps up.
    pub(super) fn credit_target(&mut self, now: Instant, path: &PathView, room: UnreadRoom) -> u64 {
        let open = self.open_window(now, path, room, if self.withheld.is_some() { GRANT_MAX } else { 0 });
        self.withheld.map_or(open, |held| open.min(held.until))
    }
    /// The same as if nothing were withheld, but `least` octets ahead of the reader where the path decides: granted bytes arrive at once.
    pub(super) fn open_window(&mut self, now: Instant, path: &PathView, room: UnreadRoom, least: u64) -> u64 {
        // Between two reads of buffered bytes it is unknown whether the reader leaves them unread.
        if self.read == self.cumulative || self.need == 0 {
            self.observe(now, path, room);
        }
        let ahead = match self.window {
            Window::Path => self.need.max(least.min(room.part)),
            Window::Octets(octets) => octets,
            Window::Pool => u64::MAX,
        };
        self.read + ahead.min(room.share)
    }
    /// The sender may continue to `until`: a receipt tells it so at once, and another when it is reached.
    pub(super) fn note_grant(&mut self, until: u64) {
        self.receipt_now = true;
        self.prompt_at = Some(self.prompt_at.map_or(until, |at| at.max(until)));
    }
    pub(super) fn read_so_far(&self) -> u64 {
        self.read
    }
    /// No credit was sent yet.
    pub(super) fn promise_anew(&mut self) {
        self.credit = self.read;
    }
    /// Raises the credit, but not in small steps (silly window syndrome, RFC 9293, section 3.8.6.2.2); credit is never withdrawn.
    pub(super) fn promise(&mut self, target: u64) {
        if target >= self.credit + worth_telling(target.saturating_sub(self.read)) {
            self.credit = target;
        }
    }
    /// Whether the credit could grow by a quarter of the window.
    pub(super) fn credit_moved(&self, target: u64) -> bool {
        let window = target.saturating_sub(self.read);
        let gain = target.saturating_sub(self.credit);
        !self.is_complete() && gain > 0 && gain * 4 >= window
    }

    /// Updates the flow's need: what arrives and is read in one RTT at the recent rate, times what repair needs.
    pub(super) fn observe(&mut self, now: Instant, path: &PathView, room: UnreadRoom) {
        let wanted = need_least(path.rtt);
        let least = wanted.min(room.part);
        if self.need == 0 {
            self.epoch_start = now;
            self.need = wanted.min(room.part.max(room.first));
        }
        // If the reader leaves nothing unread, only holes keep it from reading what arrives.
        let behind = self.read < self.cumulative;
        let rtt = path.rtt.max(EPOCH_MIN);
        // Slow start doubles per RTT, and feedback reaches the sender half an RTT later. On a long path even the rate of the
        // first packet train is used.
        let long = rtt >= LONG && !behind;
        let epochs = if long { EPOCHS_LONG } else { 1 };
        let starting = long && self.first_at.is_none_or(|first| now.since(first) < rtt);
        let epoch = if starting { EPOCH_MIN } else { rtt.scale(1, epochs) };
        let age = now.since(self.epoch_start);
        if age < epoch {
            return;
        }
        let octets = if behind { self.epoch_arrived.min(self.epoch_read) } else { self.epoch_arrived };
        let need = need_for(Rate::of(Octets::new(octets), age).octets_in(rtt).get(), path.loss);
        // It grows at once, halves per RTT while the reader leaves bytes unread, and else shrinks by an eighth per RTT in which
        // something arrived. Where room is short, a reader that takes all buffered bytes, but seldom, is a slow one whose kernel
        // buffer empties now and then.
        let rounds = (age.as_nanos() / rtt.as_nanos()).min(64);
        let kept = match (behind, octets > 0 && !starting) {
            (true, _) => self.need >> rounds.min(16),
            (false, true) if least < wanted => (self.need - self.need / (8 * epochs)) >> (rounds / 4),
            (false, true) => self.need - self.need / (8 * epochs),
            (false, false) => self.need,
        };
        self.need = need.max(kept).max(least);
        self.epoch_start = now;
        self.epoch_arrived = 0;
        self.epoch_read = 0;
    }

    /// For a micro-block, or for the whole direction. Where receipts are to be rare it waits to ride with other frames, most
    /// likely the answer.
    fn receipt_at_once(&mut self, now: Instant) {
        if self.is_complete() || self.apart <= RECEIPT_DELAY {
            self.receipt_now = true;
        } else {
            self.receipt_within(now, RECEIPT_DELAY);
        }
    }
    fn receipt_within(&mut self, now: Instant, delay: Span) {
        let at = now + delay.max(self.apart);
        self.receipt_at = Some(self.receipt_at.map_or(at, |old| old.min(at)));
    }
    /// Only duplicates arrived: the peer does not know what we hold.
    pub(super) fn receipt_for_duplicate(&mut self, now: Instant) {
        if self.receipt_flying && self.micro {
            // Most likely a copy. If our receipt for it is lost, the loss is detected and the receipt sent again.
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
    /// Only the newest receipt is worth retransmitting, with newer contents.
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

/// Least growth of a window of this many bytes that is worth a receipt: a packet's payload, or a quarter.
fn worth_telling(window: u64) -> u64 {
    (window / 4).clamp(1, PACKET_PAYLOAD)
}

/// Window of a flow while nothing, or little, was observed.
fn need_least(rtt: Span) -> u64 {
    let scaled = u128::from(NEED_INITIAL) * u128::from(rtt.as_nanos()) / u128::from(NEED_RTT.as_nanos());
    u64::try_from(scaled).unwrap_or(u64::MAX).clamp(NEED_INITIAL, NEED_INITIAL_MAX)
}

/// Window that keeps a path of `bdp` bytes per RTT full while repairs of repairs are in flight:
/// BDP x (2 + ln(packets per BDP) / ln(1/p)). Integer binary logarithms serve: their ratio is the same.
pub(super) fn need_for(bdp: u64, loss: f64) -> u64 {
    let packets = (bdp / PACKET_PAYLOAD).max(1);
    // At least 1/1024 (loss is never known to be absent), at most 1/2.
    let inverse = (1.0 / loss.clamp(1.0 / 1024.0, 0.5)) as u64;
    let log_inverse = u64::from(inverse.max(2).ilog2());
    let log_packets = u64::from(packets.ilog2()) + 1;
    bdp.saturating_mul(2).saturating_add(bdp.saturating_mul(log_packets) / log_inverse)
}
