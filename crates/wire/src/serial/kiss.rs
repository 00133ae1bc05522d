//! KISS, the octets between a host and a packet-radio modem: SLIP's framing, and a command octet that begins each frame.
//!
//! Chepponis and Karn, "The KISS TNC", 6th ARRL Computer Networking Conference (1987).

use super::slip;

/// The command, low four bits, of a frame of data; the high four bits are the modem's port.
pub const DATA: u8 = 0;
/// Leaves KISS mode.
pub const RETURN: u8 = 0xff;

/// Writes a frame of data for one of the modem's sixteen ports, with END at its front and its end as the modems expect.
pub fn put(port: u8, packet: &[u8], out: &mut Vec<u8>) {
    out.push(slip::END);
    slip::put_data(&[port << 4 | DATA], out);
    slip::put(packet, out);
}

/// The port and the command of a frame's first octet.
pub const fn command(first: u8) -> (u8, u8) {
    (first >> 4, first & 0xf)
}
