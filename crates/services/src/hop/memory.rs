//! Buffers that take little more memory than their content: accounting covers a buffer's content, not its capacity.

use std::collections::VecDeque;

/// Up to this capacity nothing is freed.
const KEPT: usize = 64 << 10;

/// Makes room for `more` bytes: a quarter beyond them where the buffer must grow, so that growing stays cheap.
pub(super) fn make_room(buf: &mut VecDeque<u8>, more: usize) {
    if buf.capacity() - buf.len() < more {
        buf.reserve_exact(more + buf.len() / 4);
    }
}

/// Frees memory if the buffer uses less than a quarter of it.
pub(super) fn give_back(buf: &mut VecDeque<u8>) {
    if buf.capacity() > KEPT && buf.capacity() / 4 > buf.len() {
        buf.shrink_to(buf.len() * 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_holds_at_most_four_times_its_content() {
        let mut buf = VecDeque::new();
        for _ in 0..1_000 {
            make_room(&mut buf, 1_172);
            buf.extend([7; 1_172]);
            assert!(buf.capacity() <= buf.len() * 5 / 4 + 1_172, "{} for {}", buf.capacity(), buf.len());
        }
        while !buf.is_empty() {
            buf.drain(..buf.len().min(4_000));
            give_back(&mut buf);
            assert!(buf.capacity() <= KEPT.max(buf.len() * 4 + 4), "{} for {}", buf.capacity(), buf.len());
        }
    }
}
