//! What carries a lane's datagrams, as values: an address in the carrier's own terms, and what it does to a datagram.

use crate::Rate;
use core::fmt;
use core::str::FromStr;
use std::net::{IpAddr, SocketAddr, SocketAddrV4};

/// Where a datagram goes, or came from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Address {
    /// A port of an IP host.
    Ip(SocketAddr),
    /// A station by its MAC address (IEEE Std 802-2014, section 8.2).
    Station([u8; 6]),
    /// The other end of a line, by the line's number.
    Line(u16),
}

impl Address {
    /// Its IP address and port, if it has any.
    pub fn ip(self) -> Option<SocketAddr> {
        match self {
            Self::Ip(address) => Some(address),
            Self::Station(_) | Self::Line(_) => None,
        }
    }
    /// The host alone, without the port by which a middlebox lets it speak.
    pub fn host(self) -> Host {
        match self {
            Self::Ip(address) => Host::Ip(address.ip().to_canonical()),
            Self::Station(station) => Host::Station(station),
            Self::Line(line) => Host::Line(line),
        }
    }
    /// As octets, different for different addresses: a kind, the address, and the port last.
    pub fn octets(self) -> [u8; 19] {
        let mut all = [0; 19];
        let (kind, port) = match self {
            Self::Ip(SocketAddr::V4(address)) => (4, address.port()),
            Self::Ip(SocketAddr::V6(address)) => (6, address.port()),
            Self::Station(_) => (1, 0),
            Self::Line(_) => (2, 0),
        };
        let (host, len) = match self {
            Self::Ip(address) => Host::Ip(address.ip()).octets(),
            Self::Station(station) => Host::Station(station).octets(),
            Self::Line(line) => Host::Line(line).octets(),
        };
        all[0] = kind;
        all[1..=len].copy_from_slice(&host[..len]);
        all[17..].copy_from_slice(&port.to_be_bytes());
        all
    }
    /// A single station's address, as `02:00:00:00:00:01`.
    pub fn station(text: &str) -> Option<Self> {
        let mut station = [0; 6];
        let mut parts = text.split(':');
        for octet in &mut station {
            let part = parts.next().filter(|part| part.len() == 2)?;
            *octet = u8::from_str_radix(part, 16).ok()?;
        }
        let single = station[0] & 1 == 0 && station != [0; 6];
        (parts.next().is_none() && single).then_some(Self::Station(station))
    }
}

/// A host by its address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Host {
    /// Of IP.
    Ip(IpAddr),
    /// See [`Address::Station`].
    Station([u8; 6]),
    /// See [`Address::Line`].
    Line(u16),
}

impl Host {
    /// Its address, and how many octets that has.
    pub fn octets(self) -> ([u8; 16], usize) {
        let mut all = [0; 16];
        let mut put = |octets: &[u8]| {
            all[..octets.len()].copy_from_slice(octets);
            octets.len()
        };
        let len = match self {
            Self::Ip(IpAddr::V4(ip)) => put(&ip.octets()),
            Self::Ip(IpAddr::V6(ip)) => put(&ip.octets()),
            Self::Station(station) => put(&station),
            Self::Line(line) => put(&line.to_be_bytes()),
        };
        (all, len)
    }
    /// How many of these octets are its owner's: an IPv6 host has a whole /64 of addresses (RFC 4291, section 2.5.4), except for link-local
    /// ones.
    pub fn owned(self) -> usize {
        match self {
            Self::Ip(IpAddr::V6(ip)) if !ip.is_unicast_link_local() => 8,
            _ => self.octets().1,
        }
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self::Ip(address)
    }
}

impl From<SocketAddrV4> for Address {
    fn from(address: SocketAddrV4) -> Self {
        Self::Ip(address.into())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(f),
            Self::Station([a, b, c, d, e, g]) => write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}"),
            Self::Line(line) => write!(f, "line {line}"),
        }
    }
}

/// A text is no address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoAddress;

impl fmt::Display for NoAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("write address:port, a station as 02:00:00:00:00:01, or line N")
    }
}

impl core::error::Error for NoAddress {}

impl FromStr for Address {
    type Err = NoAddress;
    fn from_str(text: &str) -> Result<Self, NoAddress> {
        if let Some(line) = text.strip_prefix("line ") {
            return line.parse().map(Self::Line).map_err(|_| NoAddress);
        }
        text.parse().map(Self::Ip).ok().or_else(|| Self::station(text)).ok_or(NoAddress)
    }
}

/// Which frames of bulk a radio's receiver acknowledges.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LinkAcks {
    /// Each, as the radio does without being told: one block ACK serves a whole aggregate.
    Each,
    /// The first of a burst: a collision costs no more than it, and widens the contention window.
    First,
    /// None.
    Never,
}

/// A radio whose medium access is the only rate control.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Radio {
    /// The highest rate of its PHY.
    pub rate: Rate,
    /// Lanes of one cell share its medium, though their ports differ.
    pub cell: u16,
    /// Which frames of bulk are acknowledged.
    pub acks: LinkAcks,
}

/// What a carrier does to a datagram.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Carrier {
    /// Octets around a datagram.
    pub overhead: usize,
    /// The largest packet that certainly passes, with its overhead; path-MTU search never goes below it.
    pub mtu_floor: usize,
    /// The largest packet ever worth trying.
    pub mtu_max: usize,
    /// Most octets of one batch of datagrams.
    pub batch: usize,
    /// It is a radio that takes options per frame: which of bulk are acknowledged, in bursts up to the TXOP limit.
    pub radio: Option<Radio>,
}

/// Octets of a whole IP packet at the most (RFC 791, section 3.1).
const IP_MAX: usize = 65_535;
/// Octets of IPv4's and UDP's headers (RFC 791, section 3.1; RFC 768).
const UDP4: usize = 28;
/// Octets by which IPv6's header is longer (RFC 8200, section 3).
const IPV6_MORE: usize = 20;
/// 576 octets reach every host by IPv4 (RFC 1122, section 3.3.3; RFC 8899, section 5.1.2, `MIN_PLPMTU`).
const FLOOR4: usize = 576;
/// IPv6 carries 1,280 octets everywhere (RFC 8200, section 5), which may be in a tunnel (RFC 8899, section 5.1.2, `BASE_PLPMTU`).
const FLOOR6: usize = 1_200;

impl Default for Carrier {
    /// That of a lane of which nothing is said.
    fn default() -> Self {
        Self::UDP
    }
}

impl Carrier {
    /// UDP over IPv4, and by [`Carrier::towards`] over IPv6.
    pub const UDP: Self =
        Self { overhead: UDP4, mtu_floor: FLOOR4, mtu_max: IP_MAX, batch: IP_MAX - UDP4 - IPV6_MORE, radio: None };

    /// What it does to datagrams to `address`: IPv6's header is longer, and its guaranteed packet too.
    pub fn towards(self, address: Option<Address>) -> Self {
        match address {
            Some(Address::Ip(SocketAddr::V6(_))) => {
                Self { overhead: self.overhead + IPV6_MORE, mtu_floor: self.mtu_floor.max(FLOOR6), ..self }
            }
            _ => self,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn an_address_survives_its_text() {
        for text in ["192.0.2.1:4780", "[2001:db8::1]:1", "[fe80::1%3]:9", "02:00:00:00:00:0b", "line 7"] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.to_string(), text);
        }
        let wrong =
            ["", "02:00:00:00:00", "02:00:00:00:00:0b:0c", "2:0:0:0:0:b", "01:00:00:00:00:00", "line x", "line 70000"];
        for wrong in
            wrong.into_iter().chain(["zz:00:00:00:00:00", "00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff", "192.0.2.1"])
        {
            assert_eq!(wrong.parse::<Address>(), Err(NoAddress), "{wrong}");
        }
    }

    #[test]
    fn addresses_differ_in_their_octets() {
        let texts =
            ["10.0.0.1:7", "[::10.0.0.1]:7", "[a00:1::]:7", "00:07:00:00:00:01", "line 7", "0.7.0.0:0", "10.0.0.1:8"];
        let all: std::collections::BTreeSet<[u8; 19]> =
            texts.iter().map(|text| text.parse::<Address>().unwrap().octets()).collect();
        assert_eq!(all.len(), texts.len());
        let four: Address = "10.0.0.1:258".parse().unwrap();
        let mut expected = [0; 19];
        expected[..5].copy_from_slice(&[4, 10, 0, 0, 1]);
        expected[17..].copy_from_slice(&[1, 2]);
        assert_eq!(four.octets(), expected);
        let owned = |text: &str| text.parse::<Address>().unwrap().host().owned();
        assert_eq!(["10.0.0.1:7", "[2001:db8::1]:7", "[fe80::1]:7", "line 7"].map(owned), [4, 8, 16, 2]);
    }

    #[test]
    fn ipv6_takes_more_and_guarantees_more() {
        let four: Address = "192.0.2.1:4780".parse().unwrap();
        let six: Address = "[2001:db8::1]:4780".parse().unwrap();
        assert_eq!(Carrier::UDP.towards(Some(four)), Carrier::UDP);
        let on_six = Carrier::UDP.towards(Some(six));
        assert_eq!((on_six.overhead, on_six.mtu_floor), (48, 1_200));
        assert_eq!(Carrier::UDP.towards(None).overhead, 28);
    }
}
