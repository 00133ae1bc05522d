//! A peer's addresses: those it has proven, and those being validated.
//!
//! A holder of a peer's keys may claim any address by sending from it, and an attacker that can copy its datagrams may forward
//! them from elsewhere. So a new address is used at once, but is sent no more than three times the octets received from it until
//! an answer proves that datagrams sent there reach the peer (RFC 9000, sections 8 and 9).

use wavelane_base::{Address, Instant, Span, Wakeup};

/// Until it is proven, an address is sent at most this many times the octets received from it (RFC 9000, section 8).
const UNPROVEN_FACTOR: u64 = 3;
/// Most proven addresses remembered per peer; the one not heard from for longest is dropped.
const PROVEN_MAX: usize = 4;
/// Most addresses of a peer being validated at the same time.
const TRIALS_MAX: usize = 4;
/// A proof is valid for this long after the last datagram from there: later the address may belong to another host.
const PROVEN_FOR: Span = Span::from_secs(600);
/// This long after the last datagram from there it is forgotten altogether, and no longer identifies a next hop: address leases
/// usually last a day at most, so it may well be another host's.
const PROVEN_KEPT: Span = Span::from_secs(24 * 3600);
/// Validation is given up after this long (RFC 9000, section 8.2.4: three probe timeouts, of a second on a new path) ...
const TRIAL_MIN: Span = Span::from_secs(3);
/// ... or this many RTTs, if that is longer.
const TRIAL_RTTS: u64 = 6;
/// An unanswered challenge is repeated after one RTT, but not sooner than this.
const ASK_EVERY: Span = Span::from_millis(100);

/// An octet string that is known only at the address.
pub(super) type Token = [u8; 8];

/// When the next challenge is to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ask {
    Due,
    At(Instant),
}

/// An address being validated.
#[derive(Debug)]
struct Trial {
    address: Address,
    token: Token,
    /// Octets of datagrams.
    received: u64,
    sent: u64,
    until: Instant,
    ask: Ask,
}

/// A peer's known addresses.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    /// (address, when it was last heard from), the latest last.
    proven: Vec<(Address, Instant)>,
    trials: Vec<Trial>,
}

impl Addresses {
    /// The peer is proven to be at `address`.
    pub(super) fn prove(&mut self, now: Instant, address: Address) {
        self.trials.retain(|trial| trial.address != address);
        self.proven.retain(|(other, _)| *other != address);
        if self.proven.len() >= PROVEN_MAX {
            self.proven.remove(0);
        }
        self.proven.push((address, now));
    }

    /// Whether the peer was at `address` recently.
    pub(super) fn is_proven(&self, now: Instant, address: Address) -> bool {
        self.proven.iter().any(|(other, at)| *other == address && now.since(*at) < PROVEN_FOR)
    }

    /// Where it was recently, if `since` is given then.
    pub(super) fn recent(&self, now: Instant, since: Option<Instant>) -> impl Iterator<Item = Address> {
        let counts = move |at: Instant| now.since(at) < PROVEN_FOR && since.is_none_or(|since| at >= since);
        self.proven.iter().filter(move |(_, at)| counts(*at)).map(|(address, _)| *address)
    }

    /// Whether the peer has proven within the last day ([`PROVEN_KEPT`]) that it is at an address, and has not used too many
    /// others since. Valid longer than [`PROVEN_FOR`]: a silent peer, to which nothing is sent by mistake, still is the next hop
    /// that a route names.
    pub(super) fn was_proven(&self, address: Address) -> bool {
        self.proven.iter().any(|(other, _)| *other == address)
    }

    /// An authenticated datagram of `octets` came from there.
    pub(super) fn heard(&mut self, now: Instant, from: Address, octets: usize) {
        if let Some(trial) = self.trials.iter_mut().find(|trial| trial.address == from) {
            trial.received = trial.received.saturating_add(octets as u64);
        } else if self.is_proven(now, from) {
            self.prove(now, from);
        }
    }

    /// The peer seems to be at the unknown `address`: `octets` came from there. Starts validation.
    pub(super) fn doubt(&mut self, now: Instant, address: Address, octets: usize, rtt: Option<Span>, token: Token) {
        if self.trials.iter().any(|trial| trial.address == address) {
            return;
        }
        if self.trials.len() >= TRIALS_MAX {
            self.trials.remove(0);
        }
        let until = now + trial_time(rtt);
        self.trials.push(Trial { address, token, received: octets as u64, sent: 0, until, ask: Ask::Due });
    }

    /// Octets of datagrams that may be sent there now; `None` if unlimited.
    pub(super) fn allowance(&self, to: Address) -> Option<u64> {
        let trial = self.trials.iter().find(|trial| trial.address == to)?;
        Some(trial.received.saturating_mul(UNPROVEN_FACTOR).saturating_sub(trial.sent))
    }

    /// A datagram of `octets` was sent there.
    pub(super) fn sent(&mut self, to: Address, octets: usize) {
        if let Some(trial) = self.trials.iter_mut().find(|trial| trial.address == to) {
            trial.sent += octets as u64;
        }
    }

    /// The challenge that the next datagram there is to carry.
    pub(super) fn challenge(&self, to: Address) -> Option<Token> {
        self.trials.iter().find(|trial| trial.address == to && trial.ask == Ask::Due).map(|trial| trial.token)
    }

    /// The challenge was sent.
    pub(super) fn asked(&mut self, now: Instant, to: Address, rtt: Option<Span>) {
        if let Some(trial) = self.trials.iter_mut().find(|trial| trial.address == to) {
            trial.ask = Ask::At(now + rtt.unwrap_or(ASK_EVERY).max(ASK_EVERY));
        }
    }

    /// An answer arrived, from any address (RFC 9000, section 8.2.3). Returns whether it proves an address.
    pub(super) fn answered(&mut self, now: Instant, token: Token) -> bool {
        let proven = self.trials.iter().find(|trial| trial.token == token).map(|trial| trial.address);
        proven.inspect(|address| self.prove(now, *address)).is_some()
    }

    /// Time has passed. If `current` was not proven in time and another address is proven, returns that one.
    pub(super) fn handle_timeout(&mut self, now: Instant, current: Option<Address>) -> Option<Address> {
        self.proven.retain(|(_, at)| now.since(*at) < PROVEN_KEPT);
        for trial in &mut self.trials {
            if matches!(trial.ask, Ask::At(at) if at <= now) {
                trial.ask = Ask::Due;
            }
        }
        let failed = self.trials.iter().any(|trial| Some(trial.address) == current && trial.until <= now);
        let back = self.proven.iter().rev().find(|(_, at)| now.since(*at) < PROVEN_FOR).map(|(address, _)| *address);
        // Without another address there is nothing to fall back to: the limit and the challenge stay.
        let lonely = failed && back.is_none();
        self.trials.retain_mut(|trial| {
            let over = trial.until <= now;
            let stays = over && lonely && Some(trial.address) == current;
            if stays {
                trial.until = now + TRIAL_MIN;
            }
            !over || stays
        });
        back.filter(|_| failed)
    }

    /// The next deadline.
    pub(super) fn poll_timeout(&self) -> Option<Wakeup> {
        let times = self.trials.iter().flat_map(|trial| {
            let again = match trial.ask {
                Ask::Due => None,
                Ask::At(at) => Some(at),
            };
            [again, Some(trial.until)]
        });
        let forgotten = self.proven.iter().map(|(_, at)| *at + PROVEN_KEPT);
        times
            .flatten()
            .chain(forgotten)
            .min()
            .map(|at| Wakeup { at, cause: "gateway: a peer's address is to be proven" })
    }
}

fn trial_time(rtt: Option<Span>) -> Span {
    rtt.map_or(TRIAL_MIN, |rtt| rtt.times(TRIAL_RTTS).max(TRIAL_MIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(port: u16) -> Address {
        Address::Ip(([192, 0, 2, 1], port).into())
    }

    #[test]
    fn an_unproven_address_gets_three_times_received() {
        let (mut addresses, now) = (Addresses::default(), Instant::from_secs(1));
        assert_eq!(addresses.allowance(address(1)), None);
        addresses.doubt(now, address(1), 100, None, [7; 8]);
        assert_eq!(addresses.allowance(address(1)), Some(300));
        addresses.sent(address(1), 250);
        addresses.heard(now, address(1), 10);
        assert_eq!(addresses.allowance(address(1)), Some(80));
        assert_eq!(addresses.challenge(address(1)), Some([7; 8]));
        addresses.asked(now, address(1), None);
        assert_eq!(addresses.challenge(address(1)), None);
        assert!(!addresses.answered(now, [6; 8]));
        assert!(addresses.answered(now, [7; 8]));
        assert_eq!(addresses.allowance(address(1)), None);
        assert!(addresses.is_proven(now, address(1)) && !addresses.is_proven(now + PROVEN_FOR, address(1)));
    }

    #[test]
    fn without_an_answer_the_previous_address_counts_again() {
        let (mut addresses, now) = (Addresses::default(), Instant::from_secs(1));
        addresses.prove(now, address(1));
        let recent = |since| addresses.recent(now, since).count();
        assert_eq!([None, Some(now), Some(now + ASK_EVERY)].map(recent), [1, 1, 0]);
        addresses.doubt(now, address(2), 100, Some(Span::from_secs(1)), [7; 8]);
        assert_eq!(addresses.handle_timeout(now + Span::from_secs(5), Some(address(2))), None);
        assert_eq!(addresses.handle_timeout(now + Span::from_secs(6), Some(address(2))), Some(address(1)));
        assert_eq!(addresses.poll_timeout().map(|wakeup| wakeup.at), Some(now + PROVEN_KEPT));
        assert!(addresses.was_proven(address(1)));
        assert_eq!(addresses.handle_timeout(now + PROVEN_KEPT, Some(address(1))), None);
        assert!(!addresses.was_proven(address(1)) && addresses.poll_timeout().is_none());
        let mut lonely = Addresses::default();
        lonely.doubt(now, address(2), 100, None, [7; 8]);
        assert_eq!(lonely.handle_timeout(now + TRIAL_MIN, Some(address(2))), None);
        assert_eq!(lonely.allowance(address(2)), Some(300), "the bound stays");
        for port in 0..100 {
            addresses.doubt(now, address(port), 1, None, [port as u8; 8]);
            lonely.prove(now, address(port));
        }
        assert!(addresses.trials.len() <= TRIALS_MAX && lonely.proven.len() <= PROVEN_MAX);
    }
}
