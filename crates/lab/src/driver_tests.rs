#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
use super::*;

fn udp_packet() -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 32, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    packet.extend_from_slice(&[0x03, 0xe8, 0x07, 0xd0, 0, 12, 0, 0, 1, 2, 3, 4]);
    let sum = checksum(&[&packet[12..20], &[0, 17], &[0, 12], &packet[20..]]);
    packet[26..28].copy_from_slice(&sum.to_be_bytes());
    packet
}

#[test]
fn offloads_show_in_the_packets_and_are_refused() {
    let mut packet = udp_packet();
    assert_eq!(check_packet(&packet, true), Ok(()));
    packet[31] ^= 1;
    assert!(check_packet(&packet, true).unwrap_err().contains("checksum"));
    assert_eq!(check_packet(&packet, false), Ok(()));
    // Without a checksum (RFC 768), and as a fragment, there is nothing to verify.
    packet[26..28].copy_from_slice(&[0, 0]);
    assert_eq!(check_packet(&packet, true), Ok(()));
    let long = vec![0x45; MTU + 1];
    assert!(check_packet(&long, false).unwrap_err().contains("MTU"));
    assert!(check_packet(&[0x60; 40], false).unwrap_err().contains("IPv4"));
}
