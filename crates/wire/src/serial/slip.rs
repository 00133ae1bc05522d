//! Datagrams between END octets: RFC 1055, and the doubled END of the asymmetric network of 1998.

/// Ends a frame.
pub const END: u8 = 0xc0;
/// Begins a sequence of two octets that stands for one (RFC 1055).
pub const ESC: u8 = 0xdb;
/// After [`ESC`]: an END in the data.
pub const ESC_END: u8 = 0xdc;
/// After [`ESC`]: an ESC in the data.
pub const ESC_ESC: u8 = 0xdd;

/// Writes a frame as RFC 1055 does: `packet` with its END and ESC replaced, then END.
pub fn put(packet: &[u8], out: &mut Vec<u8>) {
    put_data(packet, out);
    out.push(END);
}

/// Writes octets of a frame, escaped, without its END.
pub fn put_data(data: &[u8], out: &mut Vec<u8>) {
    for &octet in data {
        match octet {
            END => out.extend([ESC, ESC_END]),
            ESC => out.extend([ESC, ESC_ESC]),
            octet => out.push(octet),
        }
    }
}

/// Writes a frame as the network of 1998 did: `packet` with every END doubled, then END.
///
/// A packet that begins with END is ambiguous right behind another frame: IP packets and lanes' datagrams never do.
pub fn put_doubled(packet: &[u8], out: &mut Vec<u8>) {
    for &octet in packet {
        out.push(octet);
        if octet == END {
            out.push(END);
        }
    }
    out.push(END);
}
