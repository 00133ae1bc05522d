//! How many octets may wait below a line's owner, by the line's rate.

use wavelane_base::{Instant, Span};

/// What may wait in a port is this long at most: more would be a queue that nobody manages, and a pseudo-terminal takes 20,480 octets.
pub const WAITING_MAX: Span = Span::from_millis(20);
/// Bits of an octet on the wire: a start bit, eight, and a stop bit.
const BITS_PER_OCTET: u64 = 10;
/// Octets that may wait on a line so slow that [`WAITING_MAX`] is less: one is on the wire, one behind it.
const OCTETS_MIN: u64 = 2;

/// What has been written and is still on its way out, if the line runs at its stated rate.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    rate: u64,
    /// When the last octet written will have left.
    done: Instant,
}

impl Pace {
    /// Of a line of `rate` bits a second.
    pub fn new(rate: u32) -> Self {
        Self { rate: u64::from(rate.max(1)), done: Instant::ZERO }
    }
    /// How long `octets` take.
    pub fn time_for(&self, octets: usize) -> Span {
        let nanos = octets as u128 * u128::from(BITS_PER_OCTET) * 1_000_000_000;
        let nanos = nanos.div_ceil(u128::from(self.rate));
        Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
    fn octets_in(&self, span: Span) -> usize {
        let octets = u128::from(span.as_nanos()) * u128::from(self.rate) / u128::from(BITS_PER_OCTET * 1_000_000_000);
        usize::try_from(octets).unwrap_or(usize::MAX)
    }
    /// The most that may wait.
    pub fn waiting_max(&self) -> Span {
        WAITING_MAX.max(self.time_for(OCTETS_MIN as usize))
    }
    /// The same in octets.
    pub fn octets_max(&self) -> usize {
        self.octets_in(self.waiting_max()).max(OCTETS_MIN as usize)
    }
    /// How many octets may be written now.
    pub fn room(&self, now: Instant) -> usize {
        self.octets_in(self.waiting_max().saturating_sub(self.done.since(now)))
    }
    /// So many were written.
    pub fn wrote(&mut self, now: Instant, octets: usize) {
        self.done = self.done.max(now) + self.time_for(octets);
    }
    /// When half of what may wait has left, so that writing again is worth a system call.
    pub fn again(&self) -> Instant {
        self.done - self.waiting_max().scale(1, 2)
    }
}
