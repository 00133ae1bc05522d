//! What lanes travel in here: one table, from the kind of a port's address to what it does to a datagram.
//!
//! To add a medium: a row here. A channel carries its packets as they are.

use std::net::SocketAddr;
use wavelane_base::{Address, Carrier, Ecn};
use wavelane_wire::datagram::UDP4_OVERHEAD;
use wavelane_wire::ip::Udp4;

/// A datagram with what its packet says of it.
pub(crate) struct Carried<'a> {
    pub(crate) from: Address,
    pub(crate) to: Address,
    pub(crate) ecn: Ecn,
    pub(crate) payload: &'a [u8],
}

/// A row of the table.
pub(crate) struct Media {
    /// What it does to a datagram.
    pub(crate) carrier: Carrier,
    /// Writes a datagram's packet; `false` if it cannot carry that.
    pub(crate) wrap: fn(&Carried<'_>, &mut Vec<u8>) -> bool,
    /// Reads a packet.
    pub(crate) unwrap: fn(&[u8]) -> Option<Carried<'_>>,
}

/// UDP over IPv4, over cables and radios alike.
pub(crate) static UDP: Media = Media {
    carrier: Carrier::UDP,
    wrap: |datagram, packet| {
        let (Address::Ip(SocketAddr::V4(source)), Address::Ip(SocketAddr::V4(target))) = (datagram.from, datagram.to)
        else {
            return false;
        };
        packet.resize(UDP4_OVERHEAD + datagram.payload.len(), 0);
        Udp4 { source, target, ecn: datagram.ecn, payload: datagram.payload }.emit(packet).is_ok()
    },
    unwrap: |packet| {
        let udp = Udp4::parse(packet).ok()?;
        let at = |address| Address::Ip(SocketAddr::V4(address));
        Some(Carried { from: at(udp.source), to: at(udp.target), ecn: udp.ecn, payload: udp.payload })
    },
};

/// Octets before a datagram on a line: the numbers of the line at either end.
const LINE_OVERHEAD: usize = 4;

/// Lines of small packets without IP, for tests of what a carrier may say.
pub(crate) static LINE: Media = Media {
    carrier: Carrier { overhead: LINE_OVERHEAD, mtu_floor: 64, mtu_max: 256, batch: 252, radio: None },
    wrap: |datagram, packet| {
        let (Address::Line(from), Address::Line(to)) = (datagram.from, datagram.to) else { return false };
        packet.extend_from_slice(&to.to_be_bytes());
        packet.extend_from_slice(&from.to_be_bytes());
        packet.extend_from_slice(datagram.payload);
        packet.len() <= LINE.carrier.mtu_max
    },
    unwrap: |packet| {
        let number = |at: usize| Some(Address::Line(u16::from_be_bytes([*packet.get(at)?, *packet.get(at + 1)?])));
        let payload = packet.get(LINE_OVERHEAD..)?;
        Some(Carried { from: number(2)?, to: number(0)?, ecn: Ecn::NotEct, payload })
    },
};

/// The medium of a port by its address.
pub(crate) fn of(address: Address) -> &'static Media {
    match address {
        Address::Line(_) => &LINE,
        Address::Ip(_) | Address::Station(_) => &UDP,
    }
}

/// What a lane by a port with that address is carried by.
pub fn carrier_of(address: Address) -> Carrier {
    of(address).carrier
}
