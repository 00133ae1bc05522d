//! Bytes as an IP packet with TCP inside: as they are, and with both checksums put right, which chance does not do.

use std::net::IpAddr;
use wavelane_wire::ip::{Ip, checksum};
use wavelane_wire::tcp::{PROTOCOL_TCP, TCP_OPTIONS_MAX, TcpPacket};

/// Parses; what parses is written and parsed again.
pub(crate) fn parse(input: &[u8]) {
    judge(input);
    let mut packet = input.to_vec();
    if mend(&mut packet).is_some() {
        judge(&packet);
    }
}

fn judge(input: &[u8]) {
    let Ok(packet) = TcpPacket::parse(input) else { return };
    let mut buf = vec![0; packet.payload.len() + 100];
    // Padded as we pad them, options that fitted may not fit any more.
    match packet.emit(&mut buf) {
        Ok(len) => assert_eq!(TcpPacket::parse(&buf[..len]), Ok(packet)),
        Err(_) => assert!(packet.header.options.len() > TCP_OPTIONS_MAX),
    }
}

/// Puts both checksums right. `None` if there is no TCP header where they should lie.
pub(crate) fn mend(packet: &mut [u8]) -> Option<()> {
    if packet.first()? >> 4 == 4 {
        let header = packet.get_mut(..usize::from(packet.first()? & 15) * 4).filter(|header| header.len() >= 20)?;
        header[10..12].fill(0);
        let sum = checksum(&[header]);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    let ip = Ip::parse(packet).ok().filter(|ip| ip.protocol == PROTOCOL_TCP && ip.payload.len() >= 20)?;
    let start = ip.payload.as_ptr() as usize - packet.as_ptr() as usize;
    let end = start + ip.payload.len();
    let mut pseudo = match (ip.source, ip.target) {
        (IpAddr::V4(source), IpAddr::V4(target)) => [source.octets(), target.octets()].concat(),
        (IpAddr::V6(source), IpAddr::V6(target)) => [source.octets(), target.octets()].concat(),
        _ => return None,
    };
    pseudo.extend([0, PROTOCOL_TCP]);
    pseudo.extend((ip.payload.len() as u16).to_be_bytes());
    packet[start + 16..start + 18].fill(0);
    let sum = checksum(&[&pseudo, &packet[start..end]]);
    packet[start + 16..start + 18].copy_from_slice(&sum.to_be_bytes());
    Some(())
}
