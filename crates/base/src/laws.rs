//! One harness that checks the laws of [`crate::Machine`] on any machine.
//!
//! Give [`check`] a way to build the machine and a script of stimuli. It runs the machine under several driving
//! policies and compares everything it sent and everything it reported.

use crate::{FrameMeta, Instant, Machine, PortId, Span};
use core::fmt::Debug;

/// One thing that happens to the machine under test.
pub enum Stimulus<M> {
    /// A frame arrives at a port.
    Frame(PortId, Vec<u8>, FrameMeta),
    /// The owner gives a command.
    Command(fn(&mut M, Instant)),
}

/// A script: stimuli in order of time, then silence until `end`.
pub struct Script<M> {
    /// What happens, and when; times must not decrease.
    pub steps: Vec<(Instant, Stimulus<M>)>,
    /// The ports to drain.
    pub ports: Vec<PortId>,
    /// When to stop.
    pub end: Instant,
}

/// Most frames or events of one drain before it counts as endless.
const DRAIN_LIMIT: usize = 100_000;
/// Most wake-ups of one script before it counts as spinning.
const WAKEUP_LIMIT: usize = 10_000_000;
/// The largest frame a machine may write in one call.
const FRAME_ROOM: usize = 65_535;
/// Segments asked for at once where batches are tried.
const SEGMENTS: usize = 8;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Policy {
    /// Wake the machine only at its deadlines.
    Deadlines,
    /// Wake it every millisecond as well, with empty polls in between.
    EveryMillisecond,
    /// Wake it at its deadlines, and ask for several segments at once.
    Batches,
}

/// What one run sent, segment by segment: (time, port, bytes).
type Sent = Vec<(Instant, PortId, Vec<u8>)>;

/// The observable output of one run.
#[derive(PartialEq, Eq, Default)]
struct Seen {
    /// Nothing is kept: memory is measured.
    forgotten: bool,
    sent: Sent,
    /// (time, event as text).
    events: Vec<(Instant, String)>,
}

/// Runs `script` on machines from `make` and panics, naming the law, if one is broken.
pub fn check<M: Machine<Event: Debug>>(make: impl Fn() -> M, script: &Script<M>) {
    let reference = run(make(), script, Policy::Deadlines, Seen::default());
    let repeated = run(make(), script, Policy::Deadlines, Seen::default());
    assert!(reference == repeated, "law 6: the same inputs and dice must give the same bytes and events");
    let other = [
        (Policy::EveryMillisecond, "laws 4 and 5: it differs between waking at deadlines and every millisecond"),
        (Policy::Batches, "a batch is its segments: it differs between asking for one and for several"),
    ];
    for (policy, law) in other {
        let run = run(make(), script, policy, Seen::default());
        let frame = |seen: &Seen, i: usize| seen.sent.get(i).map(|(t, p, b)| (*t, *p, b.len()));
        if let Some(i) = first_difference(&reference.sent, &run.sent) {
            panic!("{law}: frame {i} {:?} and {:?}", frame(&reference, i), frame(&run, i));
        }
        if let Some(i) = first_difference(&reference.events, &run.events) {
            panic!("{law}: event {i} {:?} and {:?}", reference.events.get(i), run.events.get(i));
        }
    }
}

/// Memory of the harness itself: the buffer for frames, a copy of one frame, the text of one event.
const HARNESS_MEMORY: u64 = 4 * FRAME_ROOM as u64;

/// Law 7: runs `script`, discards the output and panics if the machine ever held more than `limit` bytes.
///
/// `peak` runs the given closure and returns the peak increase of memory during it.
pub fn check_memory<M: Machine<Event: Debug>>(
    make: impl Fn() -> M,
    script: &Script<M>,
    limit: u64,
    peak: impl FnOnce(&mut dyn FnMut()) -> u64,
) {
    let held = peak(&mut || {
        run(make(), script, Policy::Deadlines, Seen { forgotten: true, ..Seen::default() });
    });
    assert!(held <= limit + HARNESS_MEMORY, "law 7: the machine held {held} bytes, of at most {limit}");
}

fn first_difference<T: PartialEq>(a: &[T], b: &[T]) -> Option<usize> {
    (0..a.len().max(b.len())).find(|&i| a.get(i) != b.get(i))
}

fn run<M: Machine<Event: Debug>>(mut machine: M, script: &Script<M>, policy: Policy, mut seen: Seen) -> Seen {
    let segments = if policy == Policy::Batches { SEGMENTS } else { 1 };
    let mut now = Instant::ZERO;
    let mut steps = script.steps.iter().peekable();
    drain(&mut machine, now, script, segments, &mut seen);
    for _ in 0..WAKEUP_LIMIT {
        let mut next = script.end;
        if let Some((at, _)) = steps.peek() {
            next = next.min(*at);
        }
        if let Some(wakeup) = machine.poll_timeout() {
            assert!(wakeup.at > now, "law 3: stale deadline {:?} for '{}' at {now:?}", wakeup.at, wakeup.cause);
            next = next.min(wakeup.at);
        }
        if policy == Policy::EveryMillisecond {
            next = next.min(now + Span::from_millis(1));
        }
        if next >= script.end {
            return seen;
        }
        now = next;
        machine.handle_timeout(now);
        drain(&mut machine, now, script, segments, &mut seen);
        while let Some((_, stimulus)) = steps.next_if(|(at, _)| *at <= now) {
            match stimulus {
                Stimulus::Frame(port, bytes, meta) => {
                    let mut frame = bytes.clone();
                    machine.handle_frame(now, *port, &mut frame, FrameMeta { rx_time: now, ..*meta });
                }
                Stimulus::Command(command) => command(&mut machine, now),
            }
            drain(&mut machine, now, script, segments, &mut seen);
        }
        if policy == Policy::EveryMillisecond {
            machine.handle_timeout(now);
            drain(&mut machine, now, script, segments, &mut seen);
        }
    }
    panic!("law 2: more than {WAKEUP_LIMIT} wake-ups; the machine is spinning")
}

fn drain<M: Machine<Event: Debug>>(
    machine: &mut M,
    now: Instant,
    script: &Script<M>,
    segments_max: usize,
    seen: &mut Seen,
) {
    let mut buf = vec![0; FRAME_ROOM];
    for &port in &script.ports {
        let mut frames = 0;
        while let Some(transmit) = machine.poll_transmit(now, port, &mut buf, segments_max) {
            let size = transmit.segment_size.map_or(transmit.len, usize::from).max(1);
            let segments = buf[..transmit.len].chunks(size);
            assert!(segments.len() <= segments_max, "{} segments at once, of at most {segments_max}", segments.len());
            if !seen.forgotten {
                seen.sent.extend(segments.map(|segment| (now, port, segment.to_vec())));
            }
            frames += 1;
            assert!(frames < DRAIN_LIMIT, "law 2: the drain of {port:?} does not end");
        }
    }
    let mut events = 0;
    while let Some(event) = machine.poll_event() {
        if !seen.forgotten {
            seen.events.push((now, format!("{event:?}")));
        }
        events += 1;
        assert!(events < DRAIN_LIMIT, "law 2: the event drain does not end");
    }
}

#[cfg(test)]
#[path = "laws_tests.rs"]
mod tests;
