#![allow(clippy::unwrap_used, reason = "tests")]

use crate::refusal_tests::{parse, refused};
use crate::{ChannelKind, SerialFraming};
use wavelane_base::Span;
use wavelane_channel::{Coding, Gain};

const LINE: &str = "title = \"t\"\nduration = \"9 s\"\nstacks = [\"tcp-cubic\"]\n[nodes]\na = \"endpoint\"\nb = \"endpoint\"\n\
                    [channels.line]\nkind = \"serial\"\nbetween = [\"a\", \"b\"]\nframing = \"ppp+vj\"\nmtu = \"576 B\"\n\
                    forward = { rate = \"33600 bit/s\", delay = \"1 ms\", queue = \"20 packets\", modem = { gain = \"2.6\" } }\n\
                    reverse = { rate = \"9600 bit/s\", noise = \"0.0001\", uart = { fifo = 16, service = \"1 ms\" } }\n\
                    [flows.f]\napp = \"download\"\nfrom = \"a\"\nto = \"b\"\n";

#[test]
fn a_line_is_read_and_written_back() {
    let scenario = parse(LINE).unwrap();
    let ChannelKind::Serial(serial) = &scenario.channels[0].kind else { panic!() };
    assert_eq!((serial.framing, serial.mtu), (SerialFraming::PppVj, 576));
    let (forward, reverse) = (&serial.line.forward, &serial.line.reverse);
    assert_eq!(forward.coding, Coding::V42bis(Gain::from_hundredths(260).unwrap()));
    assert_eq!((forward.way_delay(), forward.cable.delay), (Span::from_millis(1), Span::from_millis(51)));
    assert_eq!((forward.octet_rate().as_bps(), reverse.octet_rate().as_bps()), (87_360, 7_680));
    assert_eq!(reverse.uart.map(|uart| (uart.fifo, uart.trigger)), Some((16, 4)));
    assert_eq!(parse(&scenario.to_toml()).unwrap(), scenario);
    let scenario = parse(include_str!("../../../scenarios/serial/radio-and-line.toml")).unwrap();
    assert!(scenario.channels[3].one_way && scenario.channels[3].joins(0, 1) && !scenario.channels[3].joins(1, 0));
    assert_eq!(parse(&scenario.to_toml()).unwrap(), scenario);
}

#[test]
fn presets_stand_for_both_directions() {
    for (preset, bps) in [("null-modem", 92_160), ("modem-33.6", 33_600), ("modem-33.6-v42bis", 67_200)] {
        let start = LINE.find("forward").unwrap();
        let end = LINE.find("[flows.f]").unwrap();
        let text = format!("{}preset = \"{preset}\"\n{}", &LINE[..start], &LINE[end..]);
        let scenario = parse(&text).unwrap();
        let ChannelKind::Serial(serial) = &scenario.channels[0].kind else { panic!() };
        assert_eq!(serial.line.forward, serial.line.reverse);
        assert_eq!(serial.line.forward.octet_rate().as_bps(), bps, "{preset}");
        assert_eq!(parse(&scenario.to_toml()).unwrap(), scenario);
    }
}

#[test]
fn what_no_line_has_is_refused_with_its_line_and_a_remedy() {
    refused(
        LINE,
        &[
            ("\"ppp+vj\"", "\"slipp\"", "10: unknown framing 'slipp'; did you mean 'slip'?"),
            ("\"576 B\"", "\"60 B\"", "11: channels.line.mtu: 60 B is no packet of a serial line: use 68 B to 9000 B"),
            (
                "\"33600 bit/s\"",
                "\"10 bit/s\"",
                "12: channels.line.forward: rate of 10 bit/s lies outside 50 to 4000000: ...",
            ),
            (
                "\"2.6\"",
                "\"5\"",
                "12: channels.line.forward.modem.gain: '5' is no gain of V.42bis: use \"1\" to \"4\", such as \"2\" or \"2.6\"",
            ),
            (
                "modem = {",
                "synchronous = true, modem = {",
                "12: channels.line.forward.synchronous: a modem is synchronous by itself: remove synchronous",
            ),
            (
                "modem = {",
                "noise = \"0.001\", modem = {",
                "12: channels.line.forward: a modem with error correction lets no noise through: ...",
            ),
            ("fifo = 16", "fifo = 999", "13: channels.line.reverse: fifo 999 and trigger 249 do not fit: ..."),
            (
                "service = \"1 ms\"",
                "service = \"2 s\"",
                "13: channels.line.reverse: service 2 s is longer than 1 s: use less",
            ),
            (
                "\"20 packets\"",
                "{ kind = \"fq-codel\" }",
                "12: channels.line.forward: a serial line has a FIFO of frames, ...",
            ),
            ("noise", "jitter", "13: unknown key 'jitter' in [channels.line.reverse]; ..."),
            (
                "reverse = { rate = \"9600 bit/s\", noise = \"0.0001\", uart = { fifo = 16, service = \"1 ms\" } }",
                "reverse = \"none\"",
                "13: channels.line.reverse: framing \"ppp+vj\" is negotiated both ways, and this line has one: give reverse a rate, or use slip or cslip",
            ),
        ],
    );
}
