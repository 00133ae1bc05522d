//! What carries a lane's datagrams on this machine, each behind the trait [`Medium`].

pub mod ether;
pub mod udp;

use std::io;
use std::os::fd::AsFd;
use udp::{Datagram, Destination, Sent};
use wavelane_base::{Address, Carrier, Ecn, Span};

/// How often a radio's queue is looked at while bulk waits: a full frame at 54 Mbit/s takes a third of it.
const LOOK: Span = Span::from_millis(1);

/// One port by which lanes leave and arrive.
pub trait Medium: AsFd {
    /// Passes waiting datagrams to `take`, and returns how many messages there were; 0 if none waits.
    fn receive(&mut self, take: &mut dyn FnMut(Datagram<'_>)) -> io::Result<usize>;
    /// Sends `bytes`: one datagram, or several of `segment` bytes each, of which the last may be shorter.
    fn send(&mut self, bytes: &[u8], segment: Option<u16>, to: Destination, ecn: Ecn) -> Sent;
    /// Datagrams worth sending at once.
    fn segments_max(&self) -> usize {
        1
    }
    /// Its own address, if it has one to be called at.
    fn local(&self) -> Option<Address> {
        None
    }
    /// What it does to a datagram; the largest packet is that of its device now.
    fn carrier(&self) -> Carrier;
    /// Why nothing comes from it, if the port itself shows that: a device that is gone or down.
    fn why_silent(&self) -> Option<String> {
        None
    }
    /// Whether it takes a datagram now. One that does not takes one again once it is writable, or after [`Medium::go_on`].
    fn has_room(&self) -> bool {
        true
    }
    /// Whether it takes bulk now: a radio's queue is kept short, for what is urgent.
    fn has_bulk_room(&self) -> bool {
        true
    }
    /// After how long [`Medium::go_on`] has something to do; `None` if only its descriptor can change anything.
    fn due_in(&self) -> Option<Span> {
        None
    }
    /// Does what time makes due, such as to pass on more of a datagram as a slow line takes it.
    fn go_on(&mut self) {}
    /// Whether its device ended, so that only a new port is of use.
    fn is_gone(&self) -> bool {
        false
    }
}

impl Medium for udp::UdpLane {
    fn receive(&mut self, take: &mut dyn FnMut(Datagram<'_>)) -> io::Result<usize> {
        Self::receive(self, take)
    }
    fn send(&mut self, bytes: &[u8], segment: Option<u16>, to: Destination, ecn: Ecn) -> Sent {
        Self::send(self, bytes, segment, to, ecn)
    }
    fn segments_max(&self) -> usize {
        Self::segments_max(self)
    }
    fn local(&self) -> Option<Address> {
        Self::local(self).ok().map(Address::Ip)
    }
    fn carrier(&self) -> Carrier {
        Carrier::UDP
    }
    fn has_bulk_room(&self) -> bool {
        Self::has_bulk_room(self)
    }
    fn due_in(&self) -> Option<Span> {
        // No descriptor tells that a driver has sent.
        (!Self::has_bulk_room(self)).then_some(LOOK)
    }
}

impl Medium for ether::EtherLane {
    fn receive(&mut self, take: &mut dyn FnMut(Datagram<'_>)) -> io::Result<usize> {
        Self::receive(self, take)
    }
    fn send(&mut self, bytes: &[u8], segment: Option<u16>, to: Destination, _: Ecn) -> Sent {
        Self::send(self, bytes, segment, to.to)
    }
    fn carrier(&self) -> Carrier {
        ether::CARRIER
    }
    fn why_silent(&self) -> Option<String> {
        let name = crate::interface_name(self.index());
        match name.as_deref().and_then(crate::interface_is_up) {
            Some(true) => None,
            Some(false) => Some(format!("its device {} is down", name.unwrap_or_default())),
            None => Some("its device is gone".into()),
        }
    }
}
