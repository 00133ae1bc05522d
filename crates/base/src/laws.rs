//! One harness that checks the laws of [`crate::Machine`] on any machine.
//!
//! Give [`check`] a way to build the machine and a script of stimuli. It runs the machine under several driving
//! policies and compares everything it sent.

use crate::{FrameMeta, Instant, Machine, PortId, Span};

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

/// How many frames or events one drain may give before it counts as endless.
const DRAIN_LIMIT: usize = 100_000;
/// How many wake-ups one script may take before it counts as spinning.
const WAKEUP_LIMIT: usize = 10_000_000;
/// The largest frame a machine may write in one call.
const FRAME_ROOM: usize = 65_535;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Policy {
    /// Wake the machine only at its deadlines.
    Deadlines,
    /// Wake it every millisecond as well, with empty polls in between.
    EveryMillisecond,
}

/// What one run sent: (time, port, bytes).
type Sent = Vec<(Instant, PortId, Vec<u8>)>;

/// Runs `script` on machines from `make` and panics, naming the law, if one is broken.
pub fn check<M: Machine>(make: impl Fn() -> M, script: &Script<M>) {
    let reference = run(make(), script, Policy::Deadlines);
    let repeated = run(make(), script, Policy::Deadlines);
    assert!(reference == repeated, "law 6: the same inputs and dice must give the same bytes");
    let eager = run(make(), script, Policy::EveryMillisecond);
    if let Some(i) = (0..reference.len().max(eager.len())).find(|&i| reference.get(i) != eager.get(i)) {
        let show = |run: &Sent| run.get(i).map(|(t, p, b)| (*t, *p, b.len()));
        panic!(
            "laws 4 and 5: frame {i} differs between waking at deadlines {:?} and every millisecond {:?}",
            show(&reference),
            show(&eager)
        );
    }
}

fn run<M: Machine>(mut machine: M, script: &Script<M>, policy: Policy) -> Sent {
    let mut sent = Sent::new();
    let mut now = Instant::ZERO;
    let mut steps = script.steps.iter().peekable();
    drain(&mut machine, now, script, &mut sent);
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
            return sent;
        }
        now = next;
        machine.handle_timeout(now);
        drain(&mut machine, now, script, &mut sent);
        while let Some((_, stimulus)) = steps.next_if(|(at, _)| *at <= now) {
            match stimulus {
                Stimulus::Frame(port, bytes, meta) => {
                    let mut frame = bytes.clone();
                    machine.handle_frame(now, *port, &mut frame, FrameMeta { rx_time: now, ..*meta });
                }
                Stimulus::Command(command) => command(&mut machine, now),
            }
            drain(&mut machine, now, script, &mut sent);
        }
        if policy == Policy::EveryMillisecond {
            machine.handle_timeout(now);
            drain(&mut machine, now, script, &mut sent);
        }
    }
    panic!("law 2: more than {WAKEUP_LIMIT} wake-ups; the machine is spinning")
}

fn drain<M: Machine>(machine: &mut M, now: Instant, script: &Script<M>, sent: &mut Sent) {
    let mut buf = vec![0; FRAME_ROOM];
    for &port in &script.ports {
        let mut frames = 0;
        while let Some(transmit) = machine.poll_transmit(now, port, &mut buf, 1) {
            sent.push((now, port, buf[..transmit.len].to_vec()));
            frames += 1;
            assert!(frames < DRAIN_LIMIT, "law 2: the drain of {port:?} does not end");
        }
    }
    let mut events = 0;
    while machine.poll_event().is_some() {
        events += 1;
        assert!(events < DRAIN_LIMIT, "law 2: the event drain does not end");
    }
}
