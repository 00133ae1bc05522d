//! The room of a station's queue, shared among the neighbours of a gateway: without shares, the first of them would have all of it.

/// Octets of a full frame, of which a share is a burst.
const FRAME: i64 = 1_500;

/// The ports of a gateway that share a radio: deficit round robin (Shreedhar and Varghese, 1996). What is counted is octets, which
/// stand for airtime where one rate is that of all neighbours.
#[derive(Debug)]
pub(crate) struct BulkRoom {
    ports: Vec<usize>,
    /// Bulk frames that the radio takes now.
    room: usize,
    /// Octets of a turn: a burst.
    quantum: i64,
    /// Whose turn it is, and what each may still send.
    turn: usize,
    deficits: Vec<i64>,
}

impl BulkRoom {
    /// A radio behind `ports` that takes `room` bulk frames while it is idle.
    pub(crate) fn new(ports: Vec<usize>, room: usize) -> Self {
        let quantum = FRAME * room.max(1) as i64;
        Self { room, quantum, turn: 0, deficits: vec![0; ports.len()], ports }
    }

    pub(crate) fn has(&self, port: usize) -> bool {
        self.ports.contains(&port)
    }

    pub(crate) fn ports(&self) -> &[usize] {
        &self.ports
    }

    pub(crate) fn is_full(&self) -> bool {
        self.room == 0
    }

    /// The radio takes `room` bulk frames now. Returns whether it takes more than before.
    pub(crate) fn set(&mut self, room: usize) -> bool {
        core::mem::replace(&mut self.room, room) < room
    }

    /// The port whose turn it is.
    pub(crate) fn in_turn(&self) -> usize {
        self.ports[self.turn]
    }

    /// The port whose turn it is sent a frame of bulk; with nothing left to send it, the turn passes on.
    pub(crate) fn took(&mut self, octets: usize) {
        self.room = self.room.saturating_sub(1);
        self.deficits[self.turn] -= octets as i64;
        if self.deficits[self.turn] <= 0 {
            self.pass();
        }
    }

    /// The port whose turn it is has no bulk: what it may send does not add up, what it owes stays.
    pub(crate) fn has_none(&mut self) {
        let left = &mut self.deficits[self.turn];
        *left = (*left).min(0);
        self.pass();
    }

    /// The next port that owes nothing has its turn.
    fn pass(&mut self) {
        loop {
            self.turn = (self.turn + 1) % self.ports.len();
            let deficit = &mut self.deficits[self.turn];
            *deficit = (*deficit + self.quantum).min(self.quantum);
            if *deficit > 0 {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What each port sends of `frames` frames, if those in `backlogged` always have more of that size.
    fn sent(room: usize, frames: usize, sizes: [usize; 3]) -> [usize; 3] {
        let mut shared = BulkRoom::new(vec![0, 1, 2], room);
        let mut octets = [0; 3];
        for _ in 0..frames {
            assert!(shared.set(room + 1) || shared.room == room + 1);
            while sizes[shared.in_turn()] == 0 {
                shared.has_none();
            }
            let size = sizes[shared.in_turn()];
            octets[shared.in_turn()] += size;
            shared.took(size);
        }
        octets
    }

    #[test]
    fn ports_with_bulk_have_equal_shares() {
        for room in [1, 3, 64] {
            let [a, b, c] = sent(room, 64 * 100, [1_500, 0, 1_500]);
            assert!(b == 0 && a.abs_diff(c) <= 1_500 * room, "{a} {c}");
            let [a, b, c] = sent(room, 64 * 100, [300, 1_500, 0]);
            assert!(c == 0 && a.abs_diff(b) <= 2 * 1_500 * room, "{a} {b}");
        }
    }

    #[test]
    fn a_port_alone_has_all_of_it() {
        assert_eq!(sent(3, 100, [0, 1_500, 0]), [0, 150_000, 0]);
        let mut one = BulkRoom::new(vec![7], 3);
        (0..10).for_each(|_| one.took(1_500));
        assert!(one.is_full() && one.in_turn() == 7 && one.has(7) && !one.has(0));
    }
}
