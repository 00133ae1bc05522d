//! Copies of a segment that one capture holds: of a router's or a bridge's two ports, of `-i any`, of a mirrored port.
//!
//! Nobody sent them again, so they belong neither to the retransmissions nor to the duplicate acknowledgements. A retransmission gets
//! an identification of its own (RFC 6864, section 4.1), and comes a round trip later; what a router forwards has a TTL less by one.

use super::packet::Segment;

/// Segments that are compared; a queue between the two ports holds more, which the TTL tells.
const REMEMBERED: usize = 8;
/// A segment with the same identification within this time is a copy, whatever its TTL: nothing is sent again so soon.
const WITHIN_NS: u64 = 10_000_000;
/// The same without an identification (IPv6), where equal segments are weaker evidence.
const UNNAMED_WITHIN_NS: u64 = 1_000_000;

/// A segment as it is compared.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// Of everything but what the way changes.
    print: u64,
    ns: u64,
    id: u16,
    ttl: u8,
}

/// The copies of one direction.
#[derive(Clone, Debug, Default)]
pub(super) struct Copies {
    recent: [Seen; REMEMBERED],
    next: usize,
    /// The TTL of originals, and that of copies which a router made.
    ttls: Option<(u8, u8)>,
    /// Copies were seen.
    any: bool,
    /// Different segments bear the same identification, so it names none.
    is_constant: bool,
}

/// A number of a segment's contents: copies have the same.
fn print(s: &Segment) -> u64 {
    const ODD: u64 = 0x9E37_79B9_7F4A_7C15;
    let mut print = 0_u64;
    let mut mix = |n: u64| print = (print.rotate_left(23) ^ n).wrapping_mul(ODD);
    mix(u64::from(s.seq) << 32 | u64::from(s.ack));
    mix(u64::from(s.data) << 32 | u64::from(s.window) << 8 | u64::from(s.flags.0));
    let (tsval, tsecr) = s.options.timestamps.unwrap_or_default();
    mix(u64::from(tsval) << 32 | u64::from(tsecr));
    for &(left, right) in s.options.sacks() {
        mix(u64::from(left) << 32 | u64::from(right));
    }
    // Zero is of an empty place.
    print | 1
}

impl Copies {
    /// Whether `s` is a copy of a segment seen before. `is_new` tells if it carries or acknowledges anything not seen before.
    pub(super) fn is_copy(&mut self, s: &Segment, now: u64, is_new: impl FnOnce() -> bool) -> bool {
        let this = Seen { print: print(s), ns: now, id: s.ip_id.unwrap_or(0), ttl: s.ttl };
        let last = self.recent[(self.next + REMEMBERED - 1) % REMEMBERED];
        for at in 0..REMEMBERED {
            if self.recent[at].print == this.print && self.same(self.recent[at], this) {
                return true;
            }
        }
        // Behind a queue the original is long forgotten.
        if let Some((_, copied)) = self.ttls
            && copied == this.ttl
            && !is_new()
        {
            return true;
        }
        self.is_constant |= this.id != 0 && this.id == last.id && this.print != last.print;
        self.recent[self.next] = this;
        self.next = (self.next + 1) % REMEMBERED;
        false
    }

    /// Whether a segment with the same contents is a copy of `other`.
    fn same(&mut self, other: Seen, this: Seen) -> bool {
        let passed = this.ns.abs_diff(other.ns);
        let routed = this.ttl < other.ttl;
        let named = this.id != 0 && !self.is_constant;
        let is_copy = if named {
            this.id == other.id && (routed || passed < WITHIN_NS)
        } else {
            // Without a name equal segments are no evidence: a host may send one twice within the millisecond. What a router
            // lowered is, and what stands in a capture that holds other copies.
            let near = if routed { WITHIN_NS } else { UNNAMED_WITHIN_NS };
            this.id == other.id && (routed || self.any) && passed < near
        };
        self.any |= is_copy;
        if is_copy && routed {
            self.ttls = Some((other.ttl, this.ttl));
        }
        is_copy
    }

    /// The other direction has copies, so this one does as well.
    pub(super) fn known(&mut self, other: &Self) {
        self.any |= other.any;
    }
}
