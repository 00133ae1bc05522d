//! A telephone exchange between modems: who calls whom, and octets between those in a call.

use super::{Action, Config, Modem, Refusal};
use wavelane_base::{Instant, Span, Wakeup};

/// From one ring to the next.
const RING_EVERY: Span = Span::from_secs(6);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Call {
    None,
    /// Rings there, next at that time.
    Rings {
        there: usize,
        next: Instant,
    },
    /// Is called from there, or in a call with it.
    With(usize),
}

#[derive(Debug)]
struct Subscriber {
    number: String,
    modem: Modem,
    call: Call,
}

/// Modems with numbers. The owner moves octets between computers and modems, and tells the time.
#[derive(Debug)]
pub(crate) struct Exchange {
    subscribers: Vec<Subscriber>,
    /// The lines are cut: no dial tone, and calls in progress have ended.
    cut: bool,
}

impl Exchange {
    /// One modem for each number.
    pub(crate) fn new(numbers: &[(&str, Config)]) -> Self {
        let subscriber = |&(number, config): &(&str, Config)| Subscriber {
            number: number.to_string(),
            modem: Modem::new(config),
            call: Call::None,
        };
        Self { subscribers: numbers.iter().map(subscriber).collect(), cut: false }
    }

    /// The modem of one subscriber.
    pub(crate) fn modem(&self, at: usize) -> &Modem {
        &self.subscribers[at].modem
    }

    /// Takes octets from a computer.
    pub(crate) fn push(&mut self, now: Instant, at: usize, octets: &[u8]) {
        self.subscribers[at].modem.push(now, octets);
        self.settle(now, at);
    }
    /// Sets a computer's DTR.
    pub(crate) fn set_dtr(&mut self, now: Instant, at: usize, on: bool) {
        self.subscribers[at].modem.set_dtr(on);
        self.settle(now, at);
    }
    /// Appends what goes to a computer.
    pub(crate) fn poll_computer(&mut self, at: usize, out: &mut Vec<u8>) {
        self.subscribers[at].modem.poll_computer(out);
    }

    /// Cuts the lines or mends them: calls end, and there is no dial tone meanwhile.
    pub(crate) fn set_cut(&mut self, cut: bool) {
        self.cut = cut;
        for subscriber in self.subscribers.iter_mut().filter(|_| cut) {
            subscriber.modem.carrier_lost();
            subscriber.modem.ringing_ends();
            subscriber.call = Call::None;
        }
    }

    fn settle(&mut self, now: Instant, at: usize) {
        let mut octets = Vec::new();
        self.subscribers[at].modem.poll_line(&mut octets);
        if let (Call::With(other), false) = (self.subscribers[at].call, octets.is_empty()) {
            self.subscribers[other].modem.push_line(&octets);
        }
        match self.subscribers[at].modem.poll_action() {
            Some(Action::Dial(number)) => self.dial(now, at, &number),
            Some(Action::Answer) => self.answer(now, at),
            Some(Action::HangUp) => self.hang_up(at),
            None => {}
        }
    }

    fn dial(&mut self, now: Instant, at: usize, number: &str) {
        let there = self.subscribers.iter().position(|subscriber| subscriber.number == number);
        let refusal = match there {
            _ if self.cut => Some(Refusal::NoDialtone),
            None => Some(Refusal::NoAnswer),
            Some(there) => {
                let callee = &self.subscribers[there];
                let free = there != at && callee.call == Call::None && !callee.modem.is_off_hook();
                (!free).then_some(Refusal::Busy)
            }
        };
        match (refusal, there) {
            (None, Some(there)) => {
                self.subscribers[at].call = Call::Rings { there, next: now };
                self.subscribers[there].call = Call::With(at);
            }
            (refusal, _) => self.subscribers[at].modem.refused(refusal.unwrap_or(Refusal::NoAnswer)),
        }
    }

    fn answer(&mut self, now: Instant, at: usize) {
        let Call::With(caller) = self.subscribers[at].call else { return };
        self.subscribers[caller].call = Call::With(at);
        for end in [at, caller] {
            self.subscribers[end].modem.answered(now);
        }
    }

    fn hang_up(&mut self, at: usize) {
        let call = core::mem::replace(&mut self.subscribers[at].call, Call::None);
        if let Call::With(other) | Call::Rings { there: other, .. } = call {
            self.subscribers[other].call = Call::None;
            self.subscribers[other].modem.carrier_lost();
            self.subscribers[other].modem.ringing_ends();
        }
    }

    /// Tells that time has passed.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        for at in 0..self.subscribers.len() {
            if let Call::Rings { there, next } = self.subscribers[at].call
                && next <= now
            {
                self.subscribers[at].call = Call::Rings { there, next: now + RING_EVERY };
                self.subscribers[there].modem.ring(now);
                self.settle(now, there);
            }
            self.subscribers[at].modem.handle_timeout(now);
            self.settle(now, at);
        }
    }

    /// When [`Self::handle_timeout`] is due.
    pub(crate) fn poll_timeout(&self) -> Option<Wakeup> {
        let of = |subscriber: &Subscriber| {
            let ring = match subscriber.call {
                Call::Rings { next, .. } => Some(Wakeup { at: next, cause: "ring" }),
                _ => None,
            };
            Wakeup::earliest(ring, subscriber.modem.poll_timeout())
        };
        self.subscribers.iter().map(of).fold(None, Wakeup::earliest)
    }
}
