//! Resource limits of a server: global bounds, and a budget per source.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use wavelane_base::{Instant, Span};

use crate::packet::Refusal;

/// Budgets are reset after this time.
const HOUR: Span = Span::from_secs(3_600);
/// Maximum number of remembered sources; for a further one the least-used is forgotten.
pub const SOURCES_MAX: usize = 4_096;
/// Times as much as a source's budget is what all sources of one site have together.
pub const SITE_BUDGETS: u64 = 8;

/// Capacity of a bucket in seconds.
pub(crate) const SECONDS_SAVED: u64 = 2;

/// A server's bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Concurrent sessions.
    pub sessions: usize,
    /// Concurrent sessions of one source.
    pub sessions_per_source: usize,
    /// Length of one session in seconds.
    pub session_seconds: u16,
    /// Seconds of sessions per source and hour.
    pub hour_seconds: u64,
    /// Bytes of TCP load per source and hour, both directions together.
    pub hour_bytes: u64,
    /// Probes answered per session and second. A draining queue delivers a second's probes at once, so a session may save up two seconds'
    /// worth.
    pub probes_per_second: u16,
    /// TCP connections per session.
    pub connections: u8,
    /// Answers per second to senders whose address is not verified.
    pub strangers_per_second: u32,
    /// HTTP requests per source and second: ten small ones in each of 16 connections of load, twice.
    pub requests_per_second: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            sessions: 32,
            sessions_per_source: 4,
            session_seconds: 300,
            hour_seconds: 3_600,
            hour_bytes: 50_000_000_000,
            probes_per_second: 1_000,
            connections: 32,
            strangers_per_second: 1_000,
            requests_per_second: 400,
        }
    }
}

/// The owner of a budget: an IPv4 address, or an IPv6 network of 64 bits, all of whose addresses one host may have.
pub fn source_of(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from(u128::from(v6) >> 64 << 64).into(),
        v4 => v4,
    }
}

/// The site of a source: of IPv6 the network of 48 bits, which one customer gets (RFC 6177, section 2); of IPv4 the address itself.
pub fn site_of(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from(u128::from(v6) >> 80 << 80).into(),
        v4 => v4,
    }
}

/// Usage of a source, or of a site, in its hour.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    since: Instant,
    seconds: u64,
    bytes: u64,
}

/// Usage by owner, of a bounded number of owners.
#[derive(Debug, Default)]
struct Ledger(BTreeMap<IpAddr, Used>);

impl Ledger {
    /// The owner's usage. For a new owner the least-used one is forgotten where all places are taken: it loses least of what is
    /// known, and whoever used much cannot have himself forgotten by opening from many addresses.
    fn of(&mut self, now: Instant, owner: IpAddr) -> &mut Used {
        self.0.retain(|_, used| now.since(used.since) < HOUR);
        if self.0.len() >= SOURCES_MAX && !self.0.contains_key(&owner) {
            let least = self.0.iter().min_by_key(|(_, used)| (used.bytes, used.seconds)).map(|(owner, _)| *owner);
            least.and_then(|least| self.0.remove(&least));
        }
        self.0.entry(owner).or_insert(Used { since: now, ..Used::default() })
    }
    fn give_back(&mut self, owner: IpAddr, seconds: u64) {
        if let Some(used) = self.0.get_mut(&owner) {
            used.seconds = used.seconds.saturating_sub(seconds);
            if (used.seconds, used.bytes) == (0, 0) {
                self.0.remove(&owner);
            }
        }
    }
    fn take_bytes(&mut self, owner: IpAddr, bytes: u64, most: u64) -> bool {
        // A session may outlast the hour in which it was opened.
        let Some(used) = self.0.get_mut(&owner) else { return true };
        used.bytes = used.bytes.saturating_add(bytes);
        used.bytes < most
    }
}

/// The budgets of all sources and of their sites.
#[derive(Debug, Default)]
pub struct Budgets {
    sources: Ledger,
    sites: Ledger,
}

impl Budgets {
    /// Takes `seconds` of the source's time and returns its remaining bytes. `Err` if nothing is left.
    pub fn take_time(&mut self, now: Instant, source: IpAddr, seconds: u64, limits: &Limits) -> Result<u64, Refusal> {
        let mut left = u64::MAX;
        let site = site_of(source);
        for (used, times) in [(self.sources.of(now, source), 1), (self.sites.of(now, site), SITE_BUDGETS)] {
            let bytes_left = limits.hour_bytes.saturating_mul(times).saturating_sub(used.bytes);
            if used.seconds.saturating_add(seconds) > limits.hour_seconds.saturating_mul(times) || bytes_left == 0 {
                return Err(Refusal::UsedUp);
            }
            left = left.min(bytes_left);
        }
        self.sources.of(now, source).seconds += seconds;
        self.sites.of(now, site).seconds += seconds;
        Ok(left)
    }

    /// Returns time that was taken and not used.
    pub fn give_back(&mut self, source: IpAddr, seconds: u64) {
        self.sources.give_back(source, seconds);
        self.sites.give_back(site_of(source), seconds);
    }

    /// Counts bytes of load; false once the hour's budget is used up.
    pub fn take_bytes(&mut self, source: IpAddr, bytes: u64, limits: &Limits) -> bool {
        let of_site = self.sites.take_bytes(site_of(source), bytes, limits.hour_bytes.saturating_mul(SITE_BUDGETS));
        self.sources.take_bytes(source, bytes, limits.hour_bytes) && of_site
    }
}

/// Token bucket: a rate per second with a burst allowance.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    per_second: u64,
    most: u64,
    /// In billionths of a token.
    held: u64,
    at: Instant,
}

const WHOLE: u64 = 1_000_000_000;

impl Bucket {
    /// A full bucket.
    pub fn full(now: Instant, per_second: u64, seconds_saved: u64) -> Self {
        let most = per_second.saturating_mul(seconds_saved).min(u64::MAX / WHOLE) * WHOLE;
        Self { per_second, most, held: most, at: now }
    }

    /// The share of it that is taken, in billionths of a token.
    fn missing(&self, now: Instant) -> u64 {
        let earned = now.since(self.at).as_nanos().saturating_mul(self.per_second);
        self.most.saturating_sub(self.held.saturating_add(earned))
    }

    /// Takes one token if available.
    pub fn take(&mut self, now: Instant) -> bool {
        let earned = now.since(self.at).as_nanos().saturating_mul(self.per_second);
        self.held = self.held.saturating_add(earned).min(self.most);
        self.at = self.at.max(now);
        let enough = self.held >= WHOLE;
        if enough {
            self.held -= WHOLE;
        }
        enough
    }
}

/// A token bucket for each source.
#[derive(Debug, Default)]
pub struct Buckets {
    held: BTreeMap<IpAddr, Bucket>,
}

impl Buckets {
    /// Takes one of the source's tokens if available.
    pub fn take(&mut self, now: Instant, source: IpAddr, per_second: u64) -> bool {
        if self.held.len() >= SOURCES_MAX && !self.held.contains_key(&source) {
            // A bucket that is full again equals a new one; of others the fullest is forgotten.
            self.held.retain(|_, bucket| bucket.missing(now) > 0);
            if self.held.len() >= SOURCES_MAX {
                let fullest = self.held.iter().min_by_key(|(_, bucket)| bucket.missing(now)).map(|(source, _)| *source);
                fullest.and_then(|fullest| self.held.remove(&fullest));
            }
        }
        self.held.entry(source).or_insert_with(|| Bucket::full(now, per_second, SECONDS_SAVED)).take(now)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
    use super::*;

    #[test]
    fn an_hour_holds_its_time_and_its_bytes_and_then_begins_anew() {
        let limits = Limits { hour_seconds: 100, hour_bytes: 1_000, ..Limits::default() };
        let (mut budgets, a) = (Budgets::default(), source_of("192.0.2.1".parse().unwrap()));
        let at = Instant::from_secs;
        assert_eq!(budgets.take_time(at(1), a, 60, &limits), Ok(1_000));
        assert_eq!(budgets.take_time(at(2), a, 60, &limits), Err(Refusal::UsedUp));
        budgets.give_back(a, 20);
        assert_eq!(budgets.take_time(at(2), a, 60, &limits), Ok(1_000));
        assert!(budgets.take_bytes(a, 999, &limits) && !budgets.take_bytes(a, 1, &limits));
        assert_eq!(budgets.take_time(at(3_600), a, 0, &limits), Err(Refusal::UsedUp));
        assert_eq!(budgets.take_time(at(3_601), a, 60, &limits), Ok(1_000));
        assert!(budgets.take_bytes("192.0.2.2".parse().unwrap(), 1, &limits), "its hour ended during its session");
    }

    #[test]
    fn sources_are_bounded_and_addresses_of_one_host_are_one() {
        let mut budgets = Budgets::default();
        let limits = Limits::default();
        let heavy = "198.51.100.1".parse().unwrap();
        budgets.take_time(Instant::ZERO, heavy, limits.hour_seconds, &limits).unwrap();
        for i in 0..3 * SOURCES_MAX as u32 {
            assert!(budgets.take_time(Instant::ZERO, IpAddr::from(i.to_be_bytes()), 1, &limits).is_ok(), "{i}");
        }
        assert!(budgets.sources.0.len() <= SOURCES_MAX && budgets.sites.0.len() <= SOURCES_MAX);
        assert_eq!(budgets.take_time(Instant::ZERO, heavy, 1, &limits), Err(Refusal::UsedUp), "it is not forgotten");
        assert_eq!(source_of("2001:db8::1".parse().unwrap()), source_of("2001:db8::ffff:2".parse().unwrap()));
        assert_eq!(source_of("::ffff:192.0.2.1".parse().unwrap()), source_of("192.0.2.1".parse().unwrap()));
    }

    #[test]
    fn networks_of_one_site_have_eight_budgets_together() {
        let (mut budgets, limits) = (Budgets::default(), Limits::default());
        let network = |i: u128| IpAddr::from(Ipv6Addr::from((0x2001_0db8_u128 << 96) + (i << 64)));
        let mut take = |i: u128| budgets.take_time(Instant::ZERO, network(i), limits.hour_seconds, &limits).is_ok();
        assert!((0..u128::from(SITE_BUDGETS)).all(&mut take));
        assert!(!take(99), "of the same 48 bits");
        assert!(take(1 << 16), "of others");
    }

    #[test]
    fn a_token_bucket_allows_rate_and_burst() {
        let mut bucket = Bucket::full(Instant::ZERO, 100, 2);
        let taken = |bucket: &mut Bucket, at| (0..1_000).filter(|_| bucket.take(at)).count();
        assert_eq!(taken(&mut bucket, Instant::ZERO), 200);
        assert_eq!(taken(&mut bucket, Instant::from_millis(500)), 50);
        assert_eq!(taken(&mut bucket, Instant::from_secs(3_600)), 200);
        assert_eq!(taken(&mut bucket, Instant::from_secs(10)), 0, "time that goes back earns nothing");
        assert_eq!(taken(&mut bucket, Instant::FAR_FUTURE), 200);
    }

    #[test]
    fn each_source_has_one_bucket() {
        let mut buckets = Buckets::default();
        let at = Instant::from_millis;
        let (one, other) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        let mut taken = |source, at| (0..100).filter(|_| buckets.take(at, source, 10)).count();
        assert_eq!(taken(one, at(0)), 20);
        assert_eq!((taken(one, at(500)), taken(other, at(500))), (5, 20));
    }

    #[test]
    fn buckets_are_bounded_and_full_ones_make_room() {
        let mut buckets = Buckets::default();
        let at = Instant::from_millis;
        for i in 0..SOURCES_MAX as u32 {
            assert!(buckets.take(at(0), IpAddr::from(i.to_be_bytes()), 10));
        }
        let further = "203.0.113.1".parse().unwrap();
        let busy = "192.0.2.9".parse().unwrap();
        assert!((0..20).all(|_| buckets.take(at(0), busy, 10)));
        assert!(buckets.take(at(99), further, 10), "one of the fullest gave way");
        assert!(!buckets.take(at(0), busy, 10), "and not the emptiest");
        assert!(buckets.take(at(100), further, 10), "the first ones are full again");
        assert!(buckets.held.len() <= SOURCES_MAX);
    }
}
