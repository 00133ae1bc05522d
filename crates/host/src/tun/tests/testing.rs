//! Packets built the slow and obvious way, to compare with.

use super::header::{PROTOCOL_TCP, PROTOCOL_UDP};

/// What distinguishes a test's packets.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub(super) six: bool,
    pub(super) port: u16,
    pub(super) identification: u16,
    pub(super) dont_fragment: bool,
    /// Words of TCP options, all of them no-operations.
    pub(super) option_words: usize,
}

fn checksum(parts: &[&[u8]]) -> u16 {
    let bytes: Vec<u8> = parts.concat();
    let mut sum = 0u16;
    for pair in bytes.chunks(2) {
        let word = u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]);
        let (next, carry) = sum.overflowing_add(word);
        sum = next + u16::from(carry);
    }
    !sum
}

impl Shape {
    fn addresses(&self) -> (Vec<u8>, Vec<u8>) {
        match self.six {
            true => ([&[0xfd; 15][..], &[1]].concat(), [&[0xfd; 15][..], &[2]].concat()),
            false => (vec![10, 0, 0, 1], vec![10, 0, 0, 2]),
        }
    }
    fn around(&self, protocol: u8, mut transport: Vec<u8>, checksum_at: usize) -> Vec<u8> {
        let (from, to) = self.addresses();
        let length = (transport.len() as u32).to_be_bytes();
        let sum = checksum(&[&from, &to, &length, &[0, 0, 0, protocol], &transport]);
        let sum = if sum == 0 && protocol == PROTOCOL_UDP { 0xffff } else { sum };
        transport[checksum_at..checksum_at + 2].copy_from_slice(&sum.to_be_bytes());
        let short = |n: usize| (n as u16).to_be_bytes();
        let mut packet;
        if self.six {
            packet = vec![0x60, 0x01, 0x23, 0x45];
            packet.extend(short(transport.len()));
            packet.extend([protocol, 61]);
            packet.extend(from);
            packet.extend(to);
        } else {
            packet = vec![0x45, 2];
            packet.extend(short(20 + transport.len()));
            packet.extend(self.identification.to_be_bytes());
            packet.extend([if self.dont_fragment { 0x40 } else { 0 }, 0, 61, protocol, 0, 0]);
            packet.extend(from);
            packet.extend(to);
            let sum = checksum(&[&packet]);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        packet.extend(transport);
        packet
    }
    pub(super) fn tcp(&self, sequence: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
        let mut tcp =
            [&self.port.to_be_bytes()[..], &443u16.to_be_bytes(), &sequence.to_be_bytes(), &[1, 2, 3, 4]].concat();
        tcp.extend([((5 + self.option_words) as u8) << 4, flags, 0x10, 0, 0, 0, 0, 0]);
        tcp.extend(vec![1; self.option_words * 4]);
        tcp.extend(payload);
        self.around(PROTOCOL_TCP, tcp, 16)
    }
    pub(super) fn udp(&self, payload: &[u8]) -> Vec<u8> {
        let mut udp = [&self.port.to_be_bytes()[..], &53u16.to_be_bytes()].concat();
        udp.extend(((8 + payload.len()) as u16).to_be_bytes());
        udp.extend([0, 0]);
        udp.extend(payload);
        self.around(PROTOCOL_UDP, udp, 6)
    }
    /// The same packet of the flow's `i`-th segment.
    pub(super) fn nth(&self, i: usize) -> Self {
        Self { identification: self.identification.wrapping_add(i as u16), ..self.clone() }
    }
}
