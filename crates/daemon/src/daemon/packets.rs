//! The packet door: IP packets between the TUN device and the gateway.

use super::Daemon;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use wavelane_host::tun::OffloadTun;

/// Packets or super-packets read from the device per round.
const READS_PER_ROUND: usize = 32;
/// Packets written to the device per round.
const PACKETS_PER_ROUND: usize = 512;
/// The longest packet a peer may send us.
const PACKET_ROOM: usize = 65_535;
const PROTOCOL_ICMP: u8 = 1;
const PROTOCOL_ICMP6: u8 = 58;
/// Unreachable and time exceeded.
const ROUTER_ERRORS: [u8; 2] = [3, 11];

/// The device and what is known of it.
pub(super) struct PacketDoor {
    pub(super) tun: OffloadTun,
    readable: bool,
    buffer: Vec<u8>,
}

impl PacketDoor {
    pub(super) fn new(tun: OffloadTun) -> Self {
        Self { tun, readable: true, buffer: vec![0; PACKET_ROOM] }
    }
}

impl Daemon {
    pub(super) fn packets_wait(&mut self) {
        if let Some(door) = &mut self.packet_door {
            door.readable = true;
        }
    }
    /// The device was deleted, and made anew.
    pub(super) fn replace_device(&mut self, tun: OffloadTun) {
        if let Err(e) = self.poller.add(&tun, super::TOKEN_TUN, super::Watch::Edges) {
            return self.say(&format!("error: cannot use {} again ({e}): restart wavelaned", tun.name()));
        }
        self.packet_door = Some(PacketDoor::new(tun));
    }
    /// From the device to the gateway. Returns whether there may be more.
    pub(super) fn take_packets(&mut self) -> bool {
        let Some(door) = self.packet_door.as_mut().filter(|d| d.readable) else { return false };
        let (now, gateway) = (self.now, &mut self.gateway);
        match door.tun.receive(READS_PER_ROUND, |packet| gateway.handle_packet(now, packet)) {
            Ok(drained) => door.readable = !drained,
            Err(e) => {
                // EBADFD: somebody deleted the interface.
                door.readable = false;
                if e.kind() != io::ErrorKind::WouldBlock {
                    let name = door.tun.name().to_owned();
                    self.warn(&format!("cannot read from {name} ({e}): it is made anew if it was deleted"));
                }
            }
        }
        true
    }
    /// From the gateway to the device. Returns whether there may be more.
    pub(super) fn give_packets(&mut self) -> bool {
        let Some(mut door) = self.packet_door.take() else { return false };
        let mut more = true;
        for _ in 0..PACKETS_PER_ROUND {
            let Some(len) = self.gateway.poll_packet(self.now, &mut door.buffer) else {
                more = false;
                break;
            };
            self.give(&mut door.tun, &door.buffer[..len]);
        }
        door.tun.flush();
        self.packet_door = Some(door);
        more
    }
    fn give(&mut self, tun: &mut OffloadTun, packet: &[u8]) {
        let router = self.gateway.config().packets.and_then(|p| p.address4);
        match icmp_error4(packet) {
            // The kernel takes nothing from outside that claims to come from itself (RFC 1812, section 5.3.7), so what
            // the gateway answers as a router leaves as our own. A peer's packets from that address end in the gateway.
            Some((source, target)) if Some(source) == router => {
                if let Some(t) = &self.door.engine.transparent
                    && t.raw.send(packet, target.into()).is_err()
                {
                    self.counters.one("dropped_packet_unsent");
                }
            }
            _ => {
                if let Some(target) = prohibited(packet) {
                    self.packet_prohibited(target);
                }
                tun.queue(packet);
            }
        }
    }
}

/// Where a packet was not let through: the target in an ICMP error that says *administratively prohibited* (RFC 1812, section 5.2.7.1; RFC
/// 4443, section 3.1), in IPv4 without IP options, which no gateway of ours adds.
fn prohibited(packet: &[u8]) -> Option<IpAddr> {
    let four = |at: usize| Some(IpAddr::from(<[u8; 4]>::try_from(packet.get(at..at + 4)?).ok()?));
    let six = |at: usize| Some(IpAddr::from(<[u8; 16]>::try_from(packet.get(at..at + 16)?).ok()?));
    match *packet.first()? {
        0x45 if *packet.get(9)? == PROTOCOL_ICMP && packet.get(20..22)? == [3, 13] => four(28 + 16),
        first if first >> 4 == 6 && *packet.get(6)? == PROTOCOL_ICMP6 && packet.get(40..42)? == [1, 1] => six(48 + 24),
        _ => None,
    }
}

/// Source and target of an ICMP error in IPv4 of the kinds that a router sends, without IP options as the gateway makes
/// them.
fn icmp_error4(packet: &[u8]) -> Option<(Ipv4Addr, Ipv4Addr)> {
    let address = |at: usize| Some(Ipv4Addr::from(<[u8; 4]>::try_from(packet.get(at..at + 4)?).ok()?));
    let is_icmp = *packet.first()? == 0x45 && *packet.get(9)? == PROTOCOL_ICMP;
    if is_icmp && ROUTER_ERRORS.contains(packet.get(20)?) { Some((address(12)?, address(16)?)) } else { None }
}
