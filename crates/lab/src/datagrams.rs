//! UDP datagrams of programs elsewhere over a scenario's channel.

use crate::LabError;
use crate::driver::{MTU, Port};
use crate::sockets::rest_until;
use crate::world::{is_veth, start_channel};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use wavelane_base::Span;
use wavelane_host::realtime;
use wavelane_scenario::{Channel, Scenario};
use wavelane_wire::ip::{IPV4_HEADER_LEN, PROTOCOL_UDP};

/// Octets that IP and UDP (RFC 768) put around a datagram: the channel takes the time of the whole packet.
const AROUND: usize = IPV4_HEADER_LEN + 8;
/// How often the thread is asked for a fault.
const GLANCE: Span = Span::from_millis(50);
/// Time to live of the packets that a channel sees (RFC 1340: the recommended default).
const HOPS: u8 = 64;

/// One end: a socket, and the program beyond it.
#[derive(Debug)]
pub(crate) struct Datagrams {
    socket: UdpSocket,
    /// Where what crossed goes: the program called, or whoever called last.
    other: Option<SocketAddr>,
    /// Whether that changes with the caller's address.
    follows: bool,
}

impl Datagrams {
    /// Reads a datagram as the packet that it was. One that no link of the lab's MTU carries is dropped, as by a router.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let (len, from) = match self.socket.recv_from(&mut buffer[AROUND..]) {
            Ok(got) => got,
            // The other program is not there: what a datagram before this one met.
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) || is_icmp(&e) => {
                return Ok(None);
            }
            Err(e) => return Err(e),
        };
        let whole = len + AROUND;
        if whole > MTU || !self.follows && self.other != Some(from) {
            return Ok(None);
        }
        if self.follows {
            self.other = Some(from);
        }
        let (header, udp) = buffer[..AROUND].split_at_mut(IPV4_HEADER_LEN);
        header.fill(0);
        header[0] = 0x45;
        header[2..4].copy_from_slice(&(whole as u16).to_be_bytes());
        (header[8], header[9]) = (HOPS, PROTOCOL_UDP);
        let here = self.socket.local_addr().ok();
        let sides = [Some(from), here].map(|side| side.unwrap_or(from));
        for (side, address) in sides.iter().enumerate() {
            // What a queue of flows tells them apart by; of an IPv6 address its end.
            let octets = match address.ip() {
                IpAddr::V4(v4) => v4.octets(),
                IpAddr::V6(v6) => Ipv4Addr::from_bits(v6.to_bits() as u32).octets(),
            };
            header[12 + 4 * side..16 + 4 * side].copy_from_slice(&octets);
            udp[2 * side..2 * side + 2].copy_from_slice(&address.port().to_be_bytes());
        }
        udp[4..6].copy_from_slice(&((len + 8) as u16).to_be_bytes());
        udp[6..].fill(0);
        Ok(Some(whole))
    }

    /// Hands on the datagram in a packet that crossed.
    pub(crate) fn write(&self, packet: &[u8]) -> io::Result<()> {
        let other = self.other.ok_or(ErrorKind::WouldBlock)?;
        match self.socket.send_to(&packet[AROUND..], other) {
            Err(e) if !is_icmp(&e) => Err(e),
            _ => Ok(()),
        }
    }
}

impl AsFd for Datagrams {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Whether an ICMP message about an earlier datagram is what the socket reports.
fn is_icmp(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable)
}

/// Where datagrams come from and go to, and over what.
#[derive(Clone, Debug)]
pub struct Crossing {
    /// The channel's name; `None` for the only one that is not the preset `ethernet`.
    pub channel: Option<String>,
    /// Where callers send to: the channel's first end.
    pub listen: SocketAddr,
    /// The program beyond its second end.
    pub to: SocketAddr,
}

impl Crossing {
    /// The channel it names.
    fn of<'a>(&self, scenario: &'a Scenario) -> Result<&'a Channel, LabError> {
        let names = || scenario.channels.iter().map(|c| c.name.as_str()).collect::<Vec<_>>().join(", ");
        let mut bad = scenario.channels.iter().filter(|channel| match &self.channel {
            Some(name) => channel.name == *name,
            None => !is_veth(scenario, channel),
        });
        match (bad.next(), bad.next()) {
            (Some(channel), None) => Ok(channel),
            _ => Err(LabError::Topology(match &self.channel {
                Some(name) => format!("the scenario has no channel '{name}': it has {}", names()),
                None => format!("which channel is meant? Say --channel with one of {}", names()),
            })),
        }
    }
}

/// Carries datagrams until `stop` says so; `ready` is called once it does, with the channel's name. Returns the octets of IP packets offered
/// by callers and by the program called.
pub fn carry(
    scenario: &Scenario,
    crossing: &Crossing,
    ready: impl FnOnce(&str),
    stop: impl Fn() -> bool,
) -> Result<[u64; 2], LabError> {
    let channel = crossing.of(scenario)?;
    let bind = |address: SocketAddr| -> Result<UdpSocket, LabError> {
        let socket = UdpSocket::bind(address).and_then(|socket| socket.set_nonblocking(true).map(|()| socket));
        socket.map_err(LabError::io(format!("cannot listen on UDP {address}: choose another --listen")))
    };
    let any: IpAddr = if crossing.to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { [0; 16].into() };
    let near = Datagrams { socket: bind(crossing.listen)?, other: None, follows: true };
    let far = Datagrams { socket: bind((any, 0).into())?, other: Some(crossing.to), follows: false };
    let ports = [Port::Datagrams(near), Port::Datagrams(far)];
    let running = start_channel(scenario, channel, scenario.seed, (ports, [None, None]), [None; 2])?;
    running.begin(realtime::now());
    ready(&channel.name);
    while !stop() {
        if let Some(fault) = running.fault() {
            return Err(LabError::Topology(fault));
        }
        rest_until(realtime::now() + GLANCE, &stop);
    }
    Ok(running.offered())
}
