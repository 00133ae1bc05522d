//! All random draws of one frame, made when it arrives.

use wavelane_base::{Chance, Ratio, Seed, Span};

/// One draw per purpose for one frame.
///
/// Every frame draws all of them on arrival, whether they are needed or not, each from a substream of its own. So frame `n`
/// has the same draws whatever the other parameters and the queue; and as a draw is compared with the probability, a higher
/// probability hits a superset of the frames that a lower one hits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Draws {
    pub(super) loss: u64,
    pub(super) corrupt: u64,
    pub(super) corrupt_bit: u64,
    pub(super) duplicate: u64,
    pub(super) first: Turn,
    pub(super) copy: Turn,
}

/// The draws for delay and reordering; a copy has its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    pub(super) jitter: u64,
    pub(super) reorder: u64,
}

/// The substreams of one direction.
pub(super) struct Dice {
    loss: Chance,
    corrupt: Chance,
    corrupt_bit: Chance,
    duplicate: Chance,
    jitter: Chance,
    reorder: Chance,
    copy_jitter: Chance,
    copy_reorder: Chance,
}

impl Dice {
    /// The substreams `"PREFIX / loss"` and so on.
    pub(super) fn new(seed: Seed, prefix: &str) -> Self {
        let chance = |purpose: &str| seed.chance(&format!("{prefix} / {purpose}"));
        Self {
            loss: chance("loss"),
            corrupt: chance("corrupt"),
            corrupt_bit: chance("corrupt bit"),
            duplicate: chance("duplicate"),
            jitter: chance("jitter"),
            reorder: chance("reorder"),
            copy_jitter: chance("copy jitter"),
            copy_reorder: chance("copy reorder"),
        }
    }
    pub(super) fn roll(&mut self) -> Draws {
        Draws {
            loss: self.loss.next_u64(),
            corrupt: self.corrupt.next_u64(),
            corrupt_bit: self.corrupt_bit.next_u64(),
            duplicate: self.duplicate.next_u64(),
            first: Turn { jitter: self.jitter.next_u64(), reorder: self.reorder.next_u64() },
            copy: Turn { jitter: self.copy_jitter.next_u64(), reorder: self.copy_reorder.next_u64() },
        }
    }
}

/// Whether a uniform draw of 64 bits falls below `p`: true with probability `p`, to within 2^-64.
pub(crate) fn hits(draw: u64, p: Ratio) -> bool {
    u128::from(draw) * u128::from(p.den()) < u128::from(p.num()) << 64
}

/// A uniform draw of 64 bits as a number in `0..n`; zero if `n` is zero.
pub(super) fn scaled(draw: u64, n: u64) -> u64 {
    ((u128::from(draw) * u128::from(n)) >> 64) as u64
}

/// A uniform draw of 64 bits as a span in `0..most`.
pub(crate) fn span_below(draw: u64, most: Span) -> Span {
    Span::from_nanos(scaled(draw, most.as_nanos()))
}
