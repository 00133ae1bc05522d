//! `vectors/blocks.txt`: what one direction's sender and receiver do, which a second implementation in another language checks as well.

use super::*;
use wavelane_base::RangeSet;
use wavelane_wire::frame::{Ranges, ReceiptState};

const CREDIT: u64 = 1_000_000;
/// Room for every frame that a line of input causes.
const ROOM: usize = 16 << 10;

fn spans(text: &str) -> Vec<(u64, u64)> {
    let parts = text.split(',').filter(|part| *part != "none");
    parts.map(|part| part.split_once('-').map(|(a, b)| (a.parse().unwrap(), b.parse().unwrap())).unwrap()).collect()
}

/// Ranges of a frame, from or as spans.
fn ranges(text: &str) -> Ranges {
    Ranges(spans(text).into_iter().map(|(first, end)| (first, end - 1)).collect())
}
fn words(ranges: &Ranges) -> String {
    let all: Vec<String> = ranges.0.iter().map(|(first, last)| format!("{first}-{}", last + 1)).collect();
    if all.is_empty() { "none".to_owned() } else { all.join(",") }
}

struct Case {
    hop: Lone,
    /// As the peer writes it.
    theirs: FlowName,
    carried: Vec<Carried>,
}

impl Case {
    fn new() -> Self {
        let mut hop = Lone::new(HopConfig::default());
        let (rtt, rate) = (Span::from_millis(100), Rate::from_bps(20_000_000));
        hop.set_path(PathView { rtt, rate, loss: 0.0, ..PathView::default() });
        let passage = Some(Passage { hops: 1, ..Passage::default() });
        let ours = hop.open(ms(0), source(), target(), passage).unwrap();
        let mut case = Self { hop, theirs: ours.from_other_side(), carried: Vec::new() };
        case.sent(ms(0));
        case.fate("0-0", true, ms(0));
        let edge = Some(Answered::default());
        let answer = Frame::Answer { flow: case.theirs, refusal: None, credit: CREDIT, edge };
        case.hop.handle_frame(ms(0), &answer);
        while case.hop.poll_event().is_some() {}
        case
    }
    fn ours(&self) -> FlowName {
        self.theirs.from_other_side()
    }

    /// What is sent now, in the file's notation.
    fn sent(&mut self, now: Instant) -> Vec<String> {
        let mut out: Vec<String> = Vec::new();
        let mut data: Option<(u64, u64)> = None;
        while self.hop.wants(now).is_some() {
            let mut buf = [0; ROOM];
            let mut w = Writer::new(&mut buf);
            self.hop.fill(now, Class::Bulk, &mut w, &mut self.carried);
            let len = w.len();
            for frame in Frames::new(&buf[..len]) {
                match frame.unwrap() {
                    Frame::Offer { block, start, length, micro, .. } => {
                        let length = length.map_or("-".to_owned(), |length| length.to_string());
                        let kind = if micro { "micro" } else { "bulk" };
                        out.push(format!("offer {block} {start} {length} {kind}"));
                    }
                    Frame::Data { offset, bytes, .. } => {
                        let end = offset + bytes.len() as u64;
                        let joined = data.filter(|(_, before)| *before == offset);
                        if joined.is_some() {
                            out.pop();
                        }
                        let first = joined.map_or(offset, |(first, _)| first);
                        out.push(format!("data {first}-{end}"));
                        data = Some((first, end));
                    }
                    Frame::Finish { length, .. } => out.push(format!("finish {length}")),
                    Frame::Receipt { state: ReceiptState::AlreadyHave, cumulative, ranges, .. } => {
                        out.push(format!("have {cumulative} {}", words(&ranges)));
                    }
                    Frame::Receipt { state, cumulative, ranges, .. } => {
                        let state = if state == ReceiptState::Complete { "complete" } else { "accept" };
                        out.push(format!("receipt {state} {cumulative} {}", words(&ranges)));
                    }
                    Frame::Open(_) => {}
                    other => panic!("{other:?}"),
                }
            }
        }
        out
    }

    /// Octets arrived, or were lost, in their newest transmission. If octets arrived, so did all small frames sent before.
    fn fate(&mut self, octets: &str, arrived: bool, now: Instant) {
        let mut which = RangeSet::default();
        spans(octets).into_iter().for_each(|(first, end)| which.insert(first, end));
        let newest = |all: &[Carried], offset: u64| {
            all.iter()
                .filter(|c| matches!(c.item, Item::Data { offset: at, .. } if at == offset))
                .map(|c| c.serial)
                .max()
        };
        for carried in std::mem::take(&mut self.carried) {
            let mine = match carried.item {
                Item::Data { offset, len } => {
                    which.gaps(offset, offset + u64::from(len)).is_empty()
                        && newest(&self.carried, offset).is_none_or(|later| later < carried.serial)
                }
                _ => arrived,
            };
            match (mine, arrived) {
                (true, true) => self.hop.delivered(now, carried),
                (true, false) => self.hop.lost(now, carried),
                (false, _) => self.carried.push(carried),
            }
        }
    }

    fn input(&mut self, now: Instant, line: &[&str]) {
        let (flow, ours) = (self.theirs, self.ours());
        let number = |i: usize| line[i].parse::<u64>().unwrap();
        match line[0] {
            "write" => {
                let octets = number(1) as usize;
                assert_eq!(self.hop.write(now, ours, &vec![7; octets]), octets);
            }
            "shut" => self.hop.shutdown(now, ours),
            "delivered" => self.fate(line.get(1).unwrap_or(&"none"), true, now),
            // Without octets the newest receipt.
            "lost" if line.len() == 1 => {
                let newest = self.carried.pop().unwrap();
                self.hop.lost(now, newest);
            }
            "lost" => self.fate(line[1], false, now),
            "receipt" => {
                let state = match line[1] {
                    "wait" => ReceiptState::Wait,
                    "complete" => ReceiptState::Complete,
                    _ => ReceiptState::Accept,
                };
                let (cumulative, credit, ranges) = (number(2), number(4), ranges(line[3]));
                self.hop.handle_frame(now, &Frame::Receipt { flow, state, cumulative, credit, ranges });
            }
            "offer" => {
                let (block, start, micro) = (number(1), number(2), line[4] == "micro");
                let length = (line[3] != "-").then(|| number(3));
                let offer = Frame::Offer { flow, block, start, length, micro, vtx: false, parcels: false };
                self.hop.handle_frame(now, &offer);
            }
            "data" => {
                let (first, end) = spans(line[1])[0];
                let bytes = vec![7; (end - first) as usize];
                self.hop.handle_frame(now, &Frame::Data { flow, offset: first, bytes: &bytes });
            }
            "finish" => self.hop.handle_frame(now, &Frame::Finish { flow, length: number(1) }),
            "read" => {
                self.hop.consume(now, ours, number(1) as usize);
            }
            "vtx" => {
                let (start, length) = (number(1), Some(number(2)));
                let offer = Frame::Offer { flow, block: 0, start, length, micro: false, vtx: true, parcels: false };
                self.hop.handle_frame(now, &offer);
            }
            "until" => {}
            other => panic!("{other}"),
        }
        while let Some(event) = self.hop.poll_event() {
            // Bytes that its application has taken are not held here, and were not lost.
            if let HopEvent::Vtx(name, start, end) = event {
                let mut taken = RangeSet::default();
                taken.insert(0, self.hop.taken(name));
                self.hop.answer_vtx(name, (start, end), &taken);
            }
        }
    }
}

#[test]
fn golden_blocks() {
    let text = include_str!("../../../../../vectors/blocks.txt");
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.starts_with("relay"));
    let (mut case, mut name, mut expected, mut found) = (Case::new(), "", Vec::new(), Vec::new());
    let mut checked = 0;
    for line in lines.chain(["sender"]) {
        let words: Vec<&str> = line.split(' ').collect();
        if matches!(words[0], "sender" | "receiver") {
            assert_eq!(found, expected, "{name}");
            checked += expected.len();
            case = Case::new();
            name = line;
            expected = Vec::new();
            found = Vec::new();
            continue;
        }
        let now = ms(words[0].parse().unwrap());
        if words[1] == "=" {
            expected.push(line.to_owned());
            continue;
        }
        let mut say = |at: Instant, sent: Vec<String>| {
            if !sent.is_empty() {
                found.push(format!("{} = {}", at.as_nanos() / 1_000_000, sent.join("; ")));
            }
        };
        while let Some(at) = case.hop.poll_timeout().map(|wakeup| wakeup.at).filter(|at| *at <= now) {
            case.hop.handle_timeout(at);
            say(at, case.sent(at));
        }
        case.input(now, &words[1..]);
        say(now, case.sent(now));
    }
    assert!(checked > 30, "{checked} answers");
}
