//! Connection slots, shared so that no client can keep others out.

use crate::limits::{site_of, source_of};
use std::collections::BTreeMap;
use std::net::{IpAddr, Shutdown, TcpStream};

/// Maximum number of concurrent connections, of all sessions and of those not yet assigned to one.
const CONNECTIONS_MAX: usize = 256;
/// Maximum of these from one source, which may not be a client at all ...
const CONNECTIONS_PER_SOURCE_MAX: usize = CONNECTIONS_MAX / 2;
/// ... from one site, which may have 65,536 sources ...
const CONNECTIONS_PER_SITE_MAX: usize = CONNECTIONS_MAX / 4 * 3;
/// ... and from one source without a request so far.
const OPENINGS_PER_SOURCE_MAX: usize = CONNECTIONS_MAX / 4;

/// Connections in order of arrival.
#[derive(Default)]
pub(crate) struct Places {
    next: u64,
    held: BTreeMap<u64, Place>,
    /// Number of connections that lost their slot.
    pub(crate) gave_way: u64,
}

struct Place {
    source: IpAddr,
    /// The socket of a connection without a request so far.
    opening: Option<TcpStream>,
}

impl Places {
    /// A slot for a connection of `ip`. If all are taken, the oldest connection without a request is closed, of the same source if that has
    /// reached its limit: a client that only holds slots cannot keep others out.
    pub(crate) fn enter(&mut self, ip: IpAddr, stream: Option<TcpStream>) -> Option<u64> {
        let source = source_of(ip);
        let of_source = || self.held.values().filter(|place| place.source == source);
        let alone = of_source().count() >= CONNECTIONS_PER_SOURCE_MAX
            || of_source().filter(|place| place.opening.is_some()).count() >= OPENINGS_PER_SOURCE_MAX;
        let site = site_of(ip);
        let of_site = self.held.values().filter(|place| site_of(place.source) == site).count();
        let is_site_full = of_site >= CONNECTIONS_PER_SITE_MAX;
        if alone || is_site_full || self.held.len() >= CONNECTIONS_MAX {
            let theirs = |place: &Place| match (alone, is_site_full) {
                (true, _) => place.source == source,
                (false, true) => site_of(place.source) == site,
                (false, false) => true,
            };
            let gives_way = |place: &Place| place.opening.is_some() && theirs(place);
            let oldest = self.held.iter().find(|(_, place)| gives_way(place)).map(|(id, _)| *id)?;
            if let Some(Place { opening: Some(stream), .. }) = self.held.remove(&oldest) {
                let _ = stream.shutdown(Shutdown::Both);
                self.gave_way += 1;
            }
        }
        self.next += 1;
        self.held.insert(self.next, Place { source, opening: stream });
        Some(self.next)
    }
    /// The connection has sent its request; false if it had already lost its slot.
    pub(crate) fn opened(&mut self, id: u64) -> bool {
        self.held.get_mut(&id).map(|place| place.opening = None).is_some()
    }
    pub(crate) fn leave(&mut self, id: u64) {
        self.held.remove(&id);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;

    #[test]
    fn one_source_takes_half_of_the_places_at_most() {
        let (one, neighbour, other) = ("2001:db8::1", "2001:db8::2", "192.0.2.1");
        let mut places = Places::default();
        let mut enter = |ip: &str, times: usize| {
            let ids = (0..times).filter_map(|_| places.enter(ip.parse().unwrap(), None));
            ids.collect::<Vec<u64>>()
        };
        let first = enter(one, 100);
        assert_eq!(first.len(), 100);
        assert_eq!(enter(neighbour, 100).len(), 28, "of the same network of 64 bits");
        assert_eq!(enter("2001:db8:0:7::1", 100).len(), 64, "of the same site");
        assert_eq!(enter(other, 300).len(), 64);
        assert!(enter("192.0.2.2", 1).is_empty(), "all are taken");
        first.iter().for_each(|id| places.leave(*id));
        assert!(places.held.len() == 156 && places.enter("192.0.2.2".parse().unwrap(), None).is_some());
    }

    #[test]
    fn who_says_nothing_gives_way() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut silent = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let theirs = listener.accept().unwrap().0;
        let mut places = Places::default();
        let first = places.enter("192.0.2.1".parse().unwrap(), Some(theirs)).unwrap();
        for i in 0..CONNECTIONS_MAX as u32 - 1 {
            assert!(places.enter(IpAddr::from((i / 100).to_be_bytes()), None).is_some());
        }
        let new = places.enter("198.51.100.1".parse().unwrap(), None).unwrap();
        assert!(!places.opened(first) && places.opened(new));
        assert_eq!(silent.read(&mut [0]).unwrap(), 0, "its connection was closed");
        assert_eq!(places.enter("198.51.100.2".parse().unwrap(), None), None, "the others have said what they want");
    }

    #[test]
    fn openings_of_one_source_take_a_quarter() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let mut ends = Vec::new();
        let mut opening = |places: &mut Places, ip: &str| {
            ends.push(TcpStream::connect(at).unwrap());
            places.enter(ip.parse().unwrap(), Some(listener.accept().unwrap().0)).unwrap()
        };
        let mut places = Places::default();
        let other = opening(&mut places, "198.51.100.1");
        let first = opening(&mut places, "192.0.2.1");
        for _ in 0..OPENINGS_PER_SOURCE_MAX {
            opening(&mut places, "192.0.2.1");
        }
        assert!(!places.opened(first) && places.opened(other), "its own oldest gave way");
        assert_eq!((places.held.len(), places.gave_way), (OPENINGS_PER_SOURCE_MAX + 1, 1));
    }
}
