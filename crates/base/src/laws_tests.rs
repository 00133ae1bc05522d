//! Machines that break a law each, to see that it is found.
use super::*;
use crate::{Transmit, Wakeup};

/// Sends a byte each 10 ms; what it does wrong besides is told.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wrong {
    Nothing,
    /// Reports how often it was woken, needed or not.
    CountsWakeups,
    /// Two segments of a batch are not what two frames would have been.
    MixesBatches,
    /// Its deadline stays behind.
    KeepsDeadline,
}

struct Clockwork {
    wrong: Wrong,
    next: Instant,
    ticks: u8,
    due: u8,
    wakeups: u64,
    events: Vec<u64>,
}

const TICK: Span = Span::from_millis(10);

impl Machine for Clockwork {
    type Event = u64;
    fn handle_frame(&mut self, _: Instant, _: PortId, _: &mut [u8], _: FrameMeta) {}
    fn handle_timeout(&mut self, now: Instant) {
        self.wakeups += 1;
        if now < self.next {
            return;
        }
        self.due += 2;
        self.next = if self.wrong == Wrong::KeepsDeadline { self.next } else { now + TICK };
        self.events.push(if self.wrong == Wrong::CountsWakeups { self.wakeups } else { 1 });
    }
    fn poll_transmit(&mut self, _: Instant, _: PortId, buf: &mut [u8], segments: usize) -> Option<Transmit> {
        let count = segments.min(usize::from(self.due));
        if count == 0 {
            return None;
        }
        self.due -= count as u8;
        for byte in &mut buf[..count] {
            self.ticks = self.ticks.wrapping_add(1);
            *byte = if self.wrong == Wrong::MixesBatches { count as u8 } else { self.ticks };
        }
        Some(Transmit { len: count, segment_size: (count > 1).then_some(1), ..Transmit::default() })
    }
    fn poll_timeout(&self) -> Option<Wakeup> {
        Some(Wakeup { at: self.next, cause: "tick" })
    }
    fn poll_event(&mut self) -> Option<u64> {
        self.events.pop()
    }
}

fn try_out(wrong: Wrong) {
    let first = Instant::ZERO + TICK;
    let make = || Clockwork { wrong, next: first, ticks: 0, due: 0, wakeups: 0, events: Vec::new() };
    check(make, &Script { steps: Vec::new(), ports: vec![PortId(0)], end: Instant::from_millis(200) });
}

#[test]
fn a_machine_that_keeps_them_passes() {
    try_out(Wrong::Nothing);
}

#[test]
#[should_panic(expected = "laws 4 and 5: it differs between waking at deadlines and every millisecond: event")]
fn output_that_depends_on_spurious_wakeups_is_detected() {
    try_out(Wrong::CountsWakeups);
}

#[test]
#[should_panic(expected = "a batch is its segments")]
fn batch_sizes_that_do_not_add_up_are_detected() {
    try_out(Wrong::MixesBatches);
}

#[test]
#[should_panic(expected = "law 3: stale deadline")]
fn a_stale_deadline_is_found() {
    try_out(Wrong::KeepsDeadline);
}

/// Keeps the last `kept` frames of 1,000 bytes, for ever.
struct Store {
    kept: usize,
    frames: std::collections::VecDeque<Vec<u8>>,
}

impl Machine for Store {
    type Event = u64;
    fn handle_frame(&mut self, _: Instant, _: PortId, frame: &mut [u8], _: FrameMeta) {
        self.frames.push_back(frame.to_vec());
        if self.frames.len() > self.kept {
            self.frames.pop_front();
        }
    }
    fn handle_timeout(&mut self, _: Instant) {}
    fn poll_transmit(&mut self, _: Instant, _: PortId, _: &mut [u8], _: usize) -> Option<Transmit> {
        None
    }
    fn poll_timeout(&self) -> Option<Wakeup> {
        None
    }
    fn poll_event(&mut self) -> Option<u64> {
        None
    }
}

fn flood_a_store_of(kept: usize) {
    let frame = |i| (Instant::from_millis(i), Stimulus::Frame(PortId(0), vec![1; 1_000], FrameMeta::default()));
    let script = Script { steps: (1..2_000).map(frame).collect(), ports: vec![PortId(0)], end: Instant::from_secs(3) };
    let make = || Store { kept, frames: Default::default() };
    check_memory(make, &script, 100_000, |work| allocation_counter::measure(work).bytes_max);
}

#[test]
fn a_machine_within_its_memory_passes() {
    flood_a_store_of(80);
}

#[test]
#[should_panic(expected = "law 7: the machine held")]
fn law_7_catches_unbounded_memory() {
    flood_a_store_of(2_000);
}
