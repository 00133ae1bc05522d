//! Two ends of a dialled line that both talk on while the call is gone: when they have it again.

use crate::chat::Script;
use crate::dialer::{Config, DialEvent, Dialer, Past};
use crate::ended::Ended;
use crate::framing::Framing;
use crate::modem::{self, Exchange};
use wavelane_base::{Instant, Span};
use wavelane_wire::serial::slip;

/// As the device's owner looks at its port.
const TURN: Span = Span::from_millis(5);
const LOOK: Span = Span::from_secs(1);
const CHATS: [&str; 2] =
    [r#""" ATZ OK ATE0 OK ATDT2 ABORT BUSY ABORT "NO " CONNECT"#, r#""" ATZ OK ATE0S0=1 OK \c TIMEOUT 3600 CONNECT"#];

struct End {
    dialer: Dialer,
    ended: Ended,
    look_at: Instant,
    failures: u32,
    heard: usize,
}

struct World {
    now: Instant,
    exchange: Exchange,
    ends: [End; 2],
    /// The turn of each frame's last octets; 0 ends each at once.
    frame_turns: [u64; 2],
    turn: u64,
}

impl World {
    fn new(frame_turns: [u64; 2]) -> Self {
        let now = Instant::from_secs(10);
        let modem = modem::Config { training: Span::from_millis(300), ..modem::Config::default() };
        let end = |chat| End {
            dialer: Dialer::new(now, &Config::new(Script::parse(chat).expect("a script")), Past::NONE),
            ended: Ended::new(Framing::Slip),
            look_at: now,
            failures: 0,
            heard: 0,
        };
        let exchange = Exchange::new(&[("1", modem), ("2", modem)]);
        Self { now, exchange, ends: CHATS.map(end), frame_turns, turn: 0 }
    }
    fn step(&mut self) {
        let now = self.now;
        self.exchange.handle_timeout(now);
        for at in 0..2 {
            let mut octets = Vec::new();
            self.exchange.poll_computer(at, &mut octets);
            let end = &mut self.ends[at];
            let mut data = Vec::new();
            if !end.dialer.is_connected() {
                end.ended = Ended::new(Framing::Slip);
            }
            end.dialer.push(now, &octets, |of_it| data.extend_from_slice(of_it));
            end.ended.push(now, &data);
            end.heard += data.iter().filter(|octet| **octet == b'x').count();
            if end.dialer.is_connected() && now >= end.look_at {
                end.look_at = now + LOOK;
                if end.ended.is_said(now) {
                    end.dialer.carrier_lost(now, "NO CARRIER");
                }
            }
            end.dialer.handle_timeout(now);
            while let Some(event) = end.dialer.poll_event() {
                end.failures += u32::from(matches!(event, DialEvent::Failed { .. }));
            }
            let mut out = Vec::new();
            end.dialer.poll_transmit(&mut out);
            if end.dialer.is_connected() {
                out.extend(b"x");
                if self.frame_turns[at] == 0 || self.turn.is_multiple_of(self.frame_turns[at]) {
                    out.push(slip::END);
                }
            }
            self.exchange.push(now, at, &out);
        }
        self.turn += 1;
        self.now = now + TURN;
    }
    /// Steps until `done`; the seconds that took.
    fn until(&mut self, what: &str, mut done: impl FnMut(&Self) -> bool) -> f64 {
        let begin = self.now;
        while !done(self) {
            self.step();
            assert!(self.now.since(begin) < Span::from_secs(300), "{what}: {:?}", self.frame_turns);
        }
        self.now.since(begin).as_secs_f64()
    }
}

#[test]
fn a_line_whose_ends_talk_on_is_dialled_again_within_a_minute() {
    let mut worst: f64 = 0.0;
    // The modem's word stands behind a frame's end or within a frame, at each end.
    for frame_turns in [[0, 0], [0, 40], [40, 0], [40, 40]] {
        // When the cut comes in the seconds at which the ends look.
        for phase in 0..20 {
            let mut world = World::new(frame_turns);
            world.until("a first call", |world| world.ends.iter().all(|end| end.heard > 100));
            let cut_at = world.now + Span::from_millis(50 * phase + 200);
            world.until("the moment", |world| world.now >= cut_at);
            world.exchange.set_cut(true);
            let mut gone = world.until("an end that knows", |world| world.ends[0].failures > 0);
            world.exchange.set_cut(false);
            let heard = [0, 1].map(|at: usize| world.ends[at].heard);
            gone += world.until("a call", |world| (0..2).all(|at| world.ends[at].heard > heard[at] + 100));
            worst = worst.max(gone);
        }
    }
    assert!(worst <= 60.0, "{worst} s");
}
