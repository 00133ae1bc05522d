//! The packet door: IP packets between the TUN device and the gateway.

use super::Daemon;
use crate::config::width;
use crate::device::Device;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Packets or super-packets read from the device per round.
const READS_PER_ROUND: usize = 32;
/// Packets written to the device per round.
const PACKETS_PER_ROUND: usize = 512;
/// The longest packet a peer may send us.
const PACKET_ROOM: usize = 65_535;
const PROTOCOL_ICMP: u8 = 1;

/// The device and what is known of it.
pub(super) struct PacketDoor {
    pub(super) device: Device,
    readable: bool,
    buffer: Vec<u8>,
}

impl PacketDoor {
    pub(super) fn new(device: Device) -> Self {
        Self { device, readable: true, buffer: vec![0; PACKET_ROOM] }
    }
}

impl Daemon {
    pub(super) fn packets_wait(&mut self) {
        if let Some(door) = &mut self.packet_door {
            door.readable = true;
        }
    }
    /// From the device to the gateway. Returns whether there may be more.
    pub(super) fn take_packets(&mut self) -> bool {
        let Some(door) = self.packet_door.as_mut().filter(|d| d.readable) else { return false };
        let (now, gateway) = (self.now, &mut self.gateway);
        match door.device.tun.receive(READS_PER_ROUND, |packet| gateway.handle_packet(now, packet)) {
            Ok(drained) => door.readable = !drained,
            Err(e) => {
                // EBADFD: the operator took the interface away. Its return needs a restart.
                door.readable = false;
                self.counters.one("dropped_packet_device");
                if e.kind() != io::ErrorKind::WouldBlock {
                    let name = door.device.tun.name().to_owned();
                    self.say(&format!("cannot read from {name} ({e}): set it up again, or restart wavelaned"));
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
            self.give(&mut door.device, &door.buffer[..len]);
        }
        door.device.tun.flush();
        self.packet_door = Some(door);
        more
    }
    fn give(&mut self, device: &mut Device, packet: &[u8]) {
        let Some((source, target)) = addresses(packet) else { return };
        let router = self.gateway.config().packets;
        let router4 = router.and_then(|p| p.address4).map(IpAddr::V4);
        let is_router = |ip: IpAddr| Some(ip) == router4 || router.and_then(|p| p.address6).map(IpAddr::V6) == Some(ip);
        if Some(source) == router4 && packet[9] == PROTOCOL_ICMP && self.is_own(source) {
            // The kernel takes nothing from outside that claims to come from itself; what the gateway answers as a
            // router leaves as our own.
            if let Some(t) = &self.transparent
                && t.raw.send(packet, target).is_err()
            {
                self.counters.one("dropped_packet_unsent");
            }
        } else if !is_router(target) && self.is_own(target) && !self.is_listed(target) {
            self.counters.one("dropped_packet_own_address");
        } else {
            device.tun.queue(packet);
        }
    }
    fn is_own(&mut self, address: IpAddr) -> bool {
        self.refresh_own();
        self.own.contains(&address)
    }
    /// Whether every peer may reach exactly this address of ours.
    fn is_listed(&self, address: IpAddr) -> bool {
        let lists =
            |p: &crate::config::Peer| p.allow_targets.iter().any(|a| a.bits == width(address) && a.address == address);
        self.config.peers.iter().all(lists)
    }
}

/// Source and target of an IP packet.
fn addresses(packet: &[u8]) -> Option<(IpAddr, IpAddr)> {
    let four = |at: usize| Some(IpAddr::from(Ipv4Addr::from(<[u8; 4]>::try_from(packet.get(at..at + 4)?).ok()?)));
    let six = |at: usize| Some(IpAddr::from(Ipv6Addr::from(<[u8; 16]>::try_from(packet.get(at..at + 16)?).ok()?)));
    match packet.first()? >> 4 {
        4 => Some((four(12)?, four(16)?)),
        6 => Some((six(8)?, six(24)?)),
        _ => None,
    }
}
