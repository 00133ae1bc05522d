//! `vectors/serial.txt`, which `vectors/check_serial.py` checks against another implementation.

use crate::vj::{Compressor, Decompressor, VjKind};
use crate::{Framer, Framing};
use wavelane_base::Instant;
use wavelane_wire::serial::hdlc::{self, Style};
use wavelane_wire::serial::{kiss, slip};

const VECTORS: &str = include_str!("../../../vectors/serial.txt");
const NOW: Instant = Instant::from_secs(1);

fn octets(text: &str) -> Vec<u8> {
    let hex = |text: &str| -> Vec<u8> {
        let digits = text.as_bytes().chunks(2);
        digits
            .map(|pair| u8::from_str_radix(core::str::from_utf8(pair).expect("ASCII"), 16).expect("hexadecimal"))
            .collect()
    };
    match text.split_once('x') {
        Some((octet, times)) => hex(octet).repeat(times.parse().expect("a number")),
        None if text == "-" => Vec::new(),
        None => hex(text),
    }
}

/// What a framer takes from these octets and a silence.
fn taken(framing: Framing, line: &[u8]) -> Vec<Vec<u8>> {
    let (mut framer, mut got) = (Framer::new(framing), Vec::new());
    framer.push(NOW, line, |packet| got.push(packet.to_vec()));
    framer.handle_timeout(Instant::from_secs(9), |packet| got.push(packet.to_vec()));
    got
}

fn frame(fields: &[&str], line: &[u8]) {
    let mut out = Vec::new();
    match *fields {
        ["slip-1998", packet] => {
            let packet = octets(packet);
            slip::put_doubled(&packet, &mut out);
            // A datagram that begins with END cannot follow another frame at once, but is read on a silent line.
            let whole: Vec<_> = Some(packet).filter(|packet| !packet.is_empty()).into_iter().collect();
            assert_eq!(taken(Framing::Slip1998, line), whole);
        }
        ["slip", packet] => {
            slip::put(&octets(packet), &mut out);
            let whole: Vec<_> = Some(octets(packet)).filter(|packet| !packet.is_empty()).into_iter().collect();
            assert_eq!(taken(Framing::Slip, line), whole);
        }
        ["kiss", port, packet] => {
            let port = port.parse().expect("a port");
            kiss::put(port, &octets(packet), &mut out);
            let mut framer = Framer::new(Framing::Kiss);
            framer.set_kiss_port(port);
            let mut got = Vec::new();
            framer.push(NOW, line, |packet| got.push(packet.to_vec()));
            assert_eq!(got, [octets(packet)]);
        }
        ["lane", framing, packet] => {
            let framing = framing.parse().expect("a framing");
            Framer::new(framing).frame(NOW, &octets(packet), &mut out);
            assert_eq!(taken(framing, line), [octets(packet)]);
        }
        ["ppp", accm, acfc, pfc, number, packet] => {
            let accm = u32::from_str_radix(accm, 16).expect("a map");
            ppp(Style { accm, acfc: acfc == "1", pfc: pfc == "1" }, number, packet, &mut out);
        }
        ["slirp", number, packet] => ppp(Style::UNNEGOTIATED, number, packet, &mut out),
        ref other => panic!("no vector is called {other:?}"),
    }
    assert_eq!(out, line, "{fields:?}");
}

fn ppp(style: Style, number: &str, packet: &str, out: &mut Vec<u8>) {
    let (number, packet) = (u16::from_str_radix(number, 16).expect("a protocol"), octets(packet));
    hdlc::put(style, number, &packet, out);
    let mut deframer = crate::deframer::Deframer::new(crate::deframer::Rules::Hdlc, 2000, crate::IDLE_DEFAULT);
    deframer.accm = 0;
    let mut got = Vec::new();
    deframer.push(NOW, out, &mut |_, frame| got.push(frame.to_vec()));
    let (found, start) = hdlc::protocol(&got[0]).expect("a protocol");
    assert_eq!((found, &got[0][start..], got.len()), (number, &packet[..], 1));
}

#[test]
fn vectors_are_written_and_read() {
    let (mut compressor, mut decompressor, mut count) = (Compressor::new(16, true, true), Decompressor::new(16), 0);
    for line in VECTORS.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split(' ').collect();
        let (last, fields) = fields.split_last().expect("a line");
        let mut wire = octets(last);
        count += 1;
        let ["vj", packet, kind] = *fields else {
            frame(fields, &wire);
            continue;
        };
        let (packet, mut out) = (octets(packet), Vec::new());
        let made = compressor.compress(&packet, &mut out);
        let word = match made {
            VjKind::Ip => "ip",
            VjKind::Full => "full",
            VjKind::Compressed => "compressed",
        };
        assert_eq!((word, &out), (kind, &wire), "{line}");
        let mut whole = Vec::new();
        let sound = match made {
            VjKind::Ip => true,
            VjKind::Full => decompressor.full(&mut wire),
            VjKind::Compressed => decompressor.compressed(&wire, &mut whole),
        };
        let whole = if made == VjKind::Compressed { whole } else { wire };
        assert_eq!((sound, whole), (true, packet), "{line}");
    }
    assert!(count >= 30, "{count} vectors");
}
