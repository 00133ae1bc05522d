//! `vectors/frames.txt`, which a second implementation in another language writes and checks as well.

use super::*;
use crate::codec::Writer;
use crate::packet::Headers;
use core::fmt::Write;

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

fn octets(text: &str) -> Vec<u8> {
    let pair = |i| u8::from_str_radix(&text[i..i + 2], 16).expect("hexadecimal");
    (0..text.len()).step_by(2).map(pair).collect()
}

fn flow(flow: FlowName) -> String {
    format!("flow={}{}", flow.number, if flow.mine { '+' } else { '-' })
}

fn spans(ranges: &Ranges) -> String {
    if ranges.0.is_empty() {
        return "-".into();
    }
    ranges.0.iter().map(|(first, last)| format!("{first}-{last}")).collect::<Vec<_>>().join(",")
}

fn word(word: Word) -> String {
    format!("{}:{}", word.count, hex(&word.tag))
}

fn seal<const N: usize>(seal: Seal<N>) -> String {
    match seal {
        Seal::Keys(message) => format!("seal=keys:{}", hex(&message)),
        Seal::Word(said) => format!("seal=word:{}", word(said)),
    }
}

fn open(open: &Open) -> String {
    let head = format!("{} source={} target={} credit={}", flow(open.flow), open.source, open.target, open.credit);
    let Some(p) = open.passage else { return format!("open {head}") };
    let bits = [p.received.is_some(), p.choice, p.attempt > 0, p.seal.is_some()];
    let flags = bits.iter().enumerate().fold(0, |flags, (i, set)| flags | u8::from(*set) << i);
    let mut text = format!("open_passage {head} token={} relays={} flags={flags}", hex(&p.token), p.hops);
    p.received.iter().for_each(|n| write!(text, " received={n}").expect("room"));
    if p.attempt > 0 {
        write!(text, " attempt={}", p.attempt).expect("room");
    }
    p.seal.iter().for_each(|s| write!(text, " {}", seal(*s)).expect("room"));
    text
}

fn packet(packet: &PacketFrame<'_>) -> String {
    let flags = u8::from(packet.order.is_some()) | u8::from(packet.piece.is_some()) << 1 | u8::from(packet.keep) << 2;
    let mut text = format!("packet flags={flags} number={}", packet.number);
    packet.order.iter().for_each(|o| write!(text, " back={} hold_ms={}", o.back, o.hold_ms).expect("room"));
    packet.piece.iter().for_each(|(at, all)| write!(text, " offset={at} total={all}").expect("room"));
    format!("{text} octets={}", hex(packet.bytes))
}

fn compressed(frame: &CompressedFrame<'_>, bytes: &[u8]) -> String {
    let c = frame.changes;
    let (_, flags) = (bytes[0], crate::codec::Reader::new(&bytes[1..]).varint().expect("fields"));
    let mut text =
        format!("compressed flags={flags} base={} ahead={} checksum={}", frame.base, frame.ahead, c.checksum);
    let mut put = |name: &str, value: Option<u64>| {
        value.iter().for_each(|value| write!(text, " {name}={value}").expect("room"));
    };
    let moved = |n: u32| Some(u64::from(n)).filter(|n| *n > 0);
    put("id", moved(c.id.into()));
    put("acknowledged", moved(c.acknowledged));
    put("window", c.window.map(u64::from));
    if c.times != (0, 0) {
        put("time", Some(c.times.0.into()));
        put("echo", Some(c.times.1.into()));
    }
    put("sequence", moved(c.sequence));
    let blocks: Vec<_> = c.sack[..c.sack_blocks.into()].iter().map(|(ahead, len)| format!("{ahead}:{len}")).collect();
    if !blocks.is_empty() {
        write!(text, " sack={}", blocks.join(",")).expect("room");
    }
    let mut put = |name: &str, value: Option<u64>| {
        value.iter().for_each(|value| write!(text, " {name}={value}").expect("room"));
    };
    put("control", c.flags.map(u64::from));
    put("class", c.class.map(u64::from));
    put("back", frame.order.map(|order| order.back));
    put("hold_ms", frame.order.map(|order| order.hold_ms));
    if !frame.payload.is_empty() {
        write!(text, " payload={}", hex(frame.payload)).expect("room");
    }
    text
}

/// A frame in the vector's words; `Data` to the end of the datagram is told by its first octet alone.
fn describe(frame: &Frame<'_>, bytes: &[u8]) -> String {
    let first = bytes[0];
    match frame {
        Frame::Padding => "padding".into(),
        Frame::Ping => "ping".into(),
        Frame::Close => "close".into(),
        Frame::Protected => "protected".into(),
        Frame::LaneAck(ack) => format!(
            "lane_ack lane={} delay_us={} arrival_us={} ect0={} ect1={} ce={} numbers={}",
            ack.lane,
            ack.ack_delay_us,
            ack.arrival_us,
            ack.ecn[0],
            ack.ecn[1],
            ack.ecn[2],
            spans(&ack.ranges)
        ),
        Frame::AckWish { lane, packets, delay_us, now } => {
            format!("ack_wish lane={lane} packets={packets} delay_us={delay_us} now={}", u8::from(*now))
        }
        Frame::Open(asked) => open(asked),
        Frame::Answer { flow: name, refusal, credit, edge } => {
            let reason = refusal.map_or(0, Reason::code);
            let head = format!("{} refusal={reason} credit={credit}", flow(*name));
            match edge {
                None => format!("answer {head}"),
                Some(Answered { received, seal: None }) => format!("answer_passage {head} received={received}"),
                Some(Answered { received, seal: Some(s) }) => {
                    format!("answer_sealed {head} received={received} {}", seal(*s))
                }
            }
        }
        Frame::Offer { flow: name, block, start, length, micro, vtx, parcels } => {
            let bits = [length.is_some(), *micro, *vtx, *parcels];
            let flags = bits.iter().enumerate().fold(0, |flags, (i, set)| flags | u8::from(*set) << i);
            let length = length.map(|n| format!(" length={n}")).unwrap_or_default();
            format!("offer {} block={block} start={start} flags={flags}{length}", flow(*name))
        }
        Frame::Data { flow: name, offset, bytes } => {
            let kind = if first == 0x08 { "data_to_end" } else { "data" };
            format!("{kind} {} offset={offset} octets={}", flow(*name), hex(bytes))
        }
        Frame::Receipt { flow: name, state, cumulative, credit, ranges } => format!(
            "receipt {} state={} cumulative={cumulative} credit={credit} ranges={}",
            flow(*name),
            state.code(),
            spans(ranges)
        ),
        Frame::Finish { flow: name, length } => format!("finish {} length={length}", flow(*name)),
        Frame::Reset { flow: name, reason, after: None } => format!("reset {} reason={}", flow(*name), reason.code()),
        Frame::Reset { flow: name, reason, after: Some(Reach { received, finished }) } => {
            let (name, reason, ended) = (flow(*name), reason.code(), u8::from(*finished));
            format!("reset_after {name} reason={reason} octets={received} ended={ended}")
        }
        Frame::Forget { below, ranges } => format!("forget below={below} ranges={}", spans(ranges)),
        Frame::Progress { flow: name, reach, word: said } => {
            let (kind, said) = match said {
                None => ("progress", String::new()),
                Some(said) => ("progress_word", format!(" word={}", word(*said))),
            };
            format!("{kind} {} received={} finished={}{said}", flow(*name), reach.received, u8::from(reach.finished))
        }
        Frame::Repair(r) => {
            format!("repair lane={} key={} first={} mask={:x} symbol={}", r.lane, r.key, r.first, r.mask, hex(r.symbol))
        }
        Frame::Repaired { lane, numbers } => format!("repaired lane={lane} numbers={}", spans(numbers)),
        Frame::Packet(carried) => packet(carried),
        Frame::Compressed(carried) => compressed(carried, bytes),
        Frame::Heard { digests } => format!("heard octets={}", hex(digests)),
        Frame::DataByDigest { flow: name, offset, len, digest } => {
            format!("data_by_digest {} offset={offset} length={len} digest={}", flow(*name), hex(digest))
        }
        Frame::PathChallenge(token) => format!("path_challenge octets={}", hex(token)),
        Frame::PathResponse(token) => format!("path_response octets={}", hex(token)),
        Frame::LaneGone { lane, next } => format!("lane_gone lane={lane} next={next}"),
        Frame::Metered { lanes, order } => format!("metered lanes={lanes} order={order}"),
        Frame::Unknown { kind } => format!("unknown type={kind}"),
    }
}

/// The frame's octets again.
fn written(frame: &Frame<'_>, first: u8) -> Vec<u8> {
    let mut buf = [0; 8192];
    let mut w = Writer::new(&mut buf);
    match frame {
        Frame::Data { flow, offset, bytes } if first == 0x08 => {
            emit_data_to_end(&mut w, *flow, *offset).and_then(|_| w.put(bytes)).expect("room");
        }
        frame => frame.emit(&mut w).expect("room"),
    }
    let len = w.len();
    buf[..len].to_vec()
}

#[test]
fn frames_are_those_of_the_second_implementation() {
    let text = include_str!("../../../../vectors/frames.txt");
    let (mut seen, mut refused) = (std::collections::BTreeSet::new(), 0);
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (what, given) = line.rsplit_once(' ').expect("fields and octets");
        let bytes = octets(given);
        let frames: Vec<_> = Frames::new(&bytes).collect();
        if what == "refused" {
            assert!(frames[0].is_err(), "{given} is read as {frames:?}");
            refused += 1;
            continue;
        }
        let [Ok(frame)] = &frames[..] else { panic!("{line} is read as {frames:?}") };
        assert_eq!(describe(frame, &bytes), what);
        assert_eq!(hex(&written(frame, bytes[0])), given, "{what}");
        seen.insert(what.split(' ').next().expect("a name"));
    }
    // A frame without a vector is none that a second implementation can be held to.
    assert_eq!((seen.len(), refused), (31, 54), "{seen:?}");
}

#[test]
fn headers_are_those_of_the_second_implementation() {
    const NUMBERS: (u64, u64) = (65_538, 65_541);
    let (mut seen, mut shortest) = (0, usize::MAX);
    for line in include_str!("../../../../vectors/headers.txt").lines().filter(|line| !line.starts_with('#')) {
        let [name, base, packet, given] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let (packet, given) = (octets(packet), octets(given));
        let headers = Headers::of(&octets(base)).expect("headers that can be kept");
        let Some(Ok(Frame::Compressed(frame))) = Frames::new(&given).next() else { panic!("{line}") };
        assert_eq!(headers.apply(&frame.changes, frame.payload).as_deref(), Some(&packet[..]), "{name}");
        let (changes, len) = headers.changes_to(&packet).expect("changes");
        let low = NUMBERS.0 as u16;
        let ours =
            CompressedFrame { base: low, ahead: NUMBERS.1 - NUMBERS.0, changes, payload: &packet[len..], ..frame };
        assert_eq!(hex(&written(&Frame::Compressed(ours), given[0])), hex(&given), "{name}");
        // An octet that was changed on the way makes no packet.
        let mut wrong = frame.changes;
        wrong.acknowledged = wrong.acknowledged.wrapping_add(1);
        assert_eq!(headers.apply(&wrong, frame.payload), None, "{name}");
        shortest = shortest.min(given.len());
        if name.starts_with("acknowledgement") {
            assert!(given.len() <= 18, "an acknowledgement with timestamps takes {} octets", given.len());
        }
        seen += 1;
    }
    assert_eq!((seen, shortest), (8, 8));
}
