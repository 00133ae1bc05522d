//! Reusable buffers for opening and sealing flows, and the accounting of opened plaintext.

use wavelane_wire::parcel::PARCEL_PLAIN_MAX;

/// Most octets opened at once, of 16 parcels: as much as the door hands to a kernel at once. They are held outside the pool until
/// the application has read them ...
pub(super) const OPENED_MAX: usize = 16 * PARCEL_PLAIN_MAX;
/// ... and once all flows together hold this many, one parcel at a time is opened.
const OPENED_ALL_MAX: usize = 4 << 20;
/// The buffer for sealing is kept for the next time up to this size.
const SCRATCH_MAX: usize = 1 << 17;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// Capacity of all flows' buffers of opened plaintext that their applications have not read yet.
    opened: usize,
    plain: Vec<u8>,
    sealed: Vec<u8>,
}

impl Scratch {
    /// How many octets may be opened at once now.
    pub(super) fn most(&self) -> usize {
        if self.opened < OPENED_ALL_MAX { OPENED_MAX } else { PARCEL_PLAIN_MAX }
    }
    /// An empty buffer to open into.
    pub(super) fn lend_to_open(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.plain)
    }
    /// Opened plaintext to be held by its flow: in this buffer, or in a fitted one if it is much smaller.
    pub(super) fn hold(&mut self, plain: Vec<u8>) -> Vec<u8> {
        let held = if plain.len() >= plain.capacity() / 4 {
            plain
        } else {
            let small = plain.as_slice().to_vec();
            self.put_back(plain);
            small
        };
        self.opened += held.capacity();
        held
    }
    /// Its content was read, or will not be read.
    pub(super) fn release(&mut self, plain: Vec<u8>) {
        self.opened = self.opened.saturating_sub(plain.capacity());
        self.put_back(plain);
    }
    /// Returns a buffer that holds nothing.
    pub(super) fn put_back(&mut self, mut plain: Vec<u8>) {
        if plain.capacity() > self.plain.capacity() {
            plain.clear();
            self.plain = plain;
        }
    }
    /// An empty buffer to seal into.
    pub(super) fn lend_to_seal(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.sealed)
    }
    /// Returns the sealing buffer after its content was written.
    pub(super) fn take_sealed(&mut self, mut sealed: Vec<u8>) {
        if sealed.capacity() <= SCRATCH_MAX {
            sealed.clear();
            self.sealed = sealed;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stopped_readers_leave_opened_is_bounded() {
        let mut scratch = Scratch::default();
        let mut held = Vec::new();
        for _ in 0..10_000 {
            let mut plain = scratch.lend_to_open();
            assert!(plain.is_empty());
            plain.resize(scratch.most(), 7);
            held.push(scratch.hold(plain));
        }
        let octets: usize = held.iter().map(Vec::capacity).sum();
        assert!(octets <= OPENED_ALL_MAX + OPENED_MAX + 4 * held.len() * PARCEL_PLAIN_MAX, "{octets}");
        held.into_iter().for_each(|plain| scratch.release(plain));
        assert_eq!((scratch.opened, scratch.most()), (0, OPENED_MAX));
    }

    #[test]
    fn a_small_rest_takes_no_large_buffer() {
        let mut scratch = Scratch::default();
        scratch.put_back(Vec::with_capacity(OPENED_MAX));
        let mut plain = scratch.lend_to_open();
        plain.extend([7; 300]);
        let held = scratch.hold(plain);
        assert!(held.len() == 300 && held.capacity() < 1_024 && scratch.lend_to_open().capacity() >= OPENED_MAX);
    }
}
