//! The contract's laws for a hop wrapped as a machine, and the state table against its printed form.
use super::*;
use flow::TRANSITIONS;
use wavelane_base::laws::{Script, Stimulus, check, check_memory};
use wavelane_base::{FrameMeta, Machine, PortId, Transmit};
use wavelane_wire::frame::{Open, Ranges, ReceiptState};

/// A hop on a bare port. A Ping reports everything in flight as delivered, a Padding as lost.
struct Bare {
    hop: Lone,
    flying: Vec<Carried>,
}

impl Machine for Bare {
    type Event = HopEvent;
    fn handle_frame(&mut self, now: Instant, _port: PortId, frame: &mut [u8], _meta: FrameMeta) {
        for frame in Frames::new(frame) {
            match frame.expect("the script holds sound frames") {
                Frame::Ping => self.flying.drain(..).for_each(|c| self.hop.delivered(now, c)),
                Frame::Padding => self.flying.drain(..).for_each(|c| self.hop.lost(now, c)),
                other => self.hop.handle_frame(now, &other),
            }
        }
    }
    fn handle_timeout(&mut self, now: Instant) {
        self.hop.handle_timeout(now);
    }
    fn poll_transmit(&mut self, now: Instant, _: PortId, buf: &mut [u8], _: usize) -> Option<Transmit> {
        let class = self.hop.wants(now)?;
        let mut w = Writer::new(&mut buf[..MTU_PAYLOAD]);
        let wrote = self.hop.fill(now, Class::Bulk, &mut w, &mut self.flying);
        wrote.then(|| Transmit { len: w.len(), class, ..Transmit::default() })
    }
    fn poll_timeout(&self) -> Option<Wakeup> {
        self.hop.poll_timeout()
    }
    fn poll_event(&mut self) -> Option<HopEvent> {
        self.hop.poll_event()
    }
}

fn bytes(frames: &[Frame<'_>]) -> Stimulus<Bare> {
    let mut buf = [0; 4_096];
    let mut w = Writer::new(&mut buf);
    frames.iter().for_each(|f| f.emit(&mut w).unwrap());
    let len = w.len();
    Stimulus::Frame(PortId(0), buf[..len].to_vec(), FrameMeta::default())
}

#[test]
fn a_hop_keeps_the_laws_of_a_machine() {
    let ours = FlowName { mine: true, number: 0 };
    let theirs = FlowName { mine: true, number: 0 };
    let receipt = |cumulative, ranges: Vec<(u64, u64)>| Frame::Receipt {
        flow: ours.from_other_side(),
        state: ReceiptState::Accept,
        cumulative,
        credit: 200_000,
        ranges: Ranges(ranges),
    };
    let open = Frame::Open(Open { flow: theirs, source: source(), target: target(), credit: 70_000, passage: None });
    let data = |offset, bytes| Frame::Data { flow: theirs, offset, bytes };
    let steps = vec![
        (
            ms(1),
            Stimulus::Command(|m: &mut Bare, now| {
                m.hop.open(now, source(), target(), None).unwrap();
            }),
        ),
        (ms(30), bytes(&[Frame::Padding])),
        (
            ms(60),
            bytes(&[
                Frame::Ping,
                Frame::Answer { flow: ours.from_other_side(), refusal: None, credit: 90_000, edge: None },
            ]),
        ),
        (
            ms(61),
            Stimulus::Command(|m, now| {
                m.hop.write(now, FlowName { mine: true, number: 0 }, &[1; 64]);
            }),
        ),
        (
            ms(100),
            Stimulus::Command(|m, now| {
                m.hop.write(now, FlowName { mine: true, number: 0 }, &[2; 120_000]);
            }),
        ),
        (ms(150), bytes(&[open])),
        (ms(151), Stimulus::Command(|m, now| m.hop.accept(now, FlowName { mine: false, number: 0 }, None))),
        (ms(160), bytes(&[data(0, &[1; 900]), data(2_000, &[2; 900])])),
        (ms(200), bytes(&[Frame::Padding])),
        (ms(320), bytes(&[receipt(40_000, vec![(60_000, 69_999)]), Frame::Ping])),
        (ms(5_000), bytes(&[receipt(64, vec![]), data(900, &[3; 1_100])])),
        (ms(9_000), Stimulus::Command(|m, now| m.hop.shutdown(now, FlowName { mine: false, number: 0 }))),
        (ms(9_100), bytes(&[Frame::Padding, Frame::Finish { flow: theirs, length: 2_900 }])),
        (ms(12_000), Stimulus::Command(|m, now| m.hop.peer_restarted(now))),
    ];
    let make = || {
        let mut hop = Lone::new(HopConfig::default());
        hop.set_path(PathView { loss: 0.02, burst: Some(Span::from_millis(30)), ..PathView::default() });
        Bare { hop, flying: Vec::new() }
    };
    check(make, &Script { steps, ports: vec![PortId(0)], end: ms(20_000) });
}

/// Memory of a flow besides its bytes, and of a stored piece.
const FLOW_MEMORY: u64 = 8 << 10;

/// A peer opens far more flows than allowed and sends pieces with holes to each, up to the credit and beyond, which nobody reads;
/// our flows are written to and never acknowledged.
#[test]
fn a_hop_that_is_flooded_stays_within_its_memory() {
    let config = HopConfig { flows_max: 32, pool: wavelane_base::Octets::new(1 << 20), ..HopConfig::default() };
    let mut steps = Vec::new();
    for number in 0..400 {
        let flow = FlowName { mine: true, number };
        let open = Frame::Open(Open { flow, source: source(), target: target(), credit: 1 << 40, passage: None });
        steps.push((ms(10 + number), bytes(&[open])));
    }
    let accept: fn(&mut Bare, Instant) = |m, now| {
        for number in 0..400 {
            m.hop.accept(now, FlowName { mine: false, number }, None);
        }
    };
    steps.push((ms(500), Stimulus::Command(accept)));
    for piece in 0..600 {
        for number in 0..32 {
            let data = Frame::Data { flow: FlowName { mine: true, number }, offset: piece * 1_000, bytes: &[7; 500] };
            steps.push((ms(600 + piece), bytes(&[data])));
        }
    }
    let write: fn(&mut Bare, Instant) = |m, now| {
        let _ = m.hop.open(now, source(), target(), None);
        for number in 0..400 {
            m.hop.write(now, FlowName { mine: true, number }, &[1; 100_000]);
        }
    };
    for i in 0..200 {
        steps.push((ms(2_000 + i), Stimulus::Command(write)));
    }
    let make = || Bare { hop: Lone::new(config), flying: Vec::new() };
    // A hole at every other byte doubles the memory of a piece.
    let limit = 2 * config.pool.get() + config.flows_max as u64 * FLOW_MEMORY;
    let script = Script { steps, ports: vec![], end: ms(3_000) };
    check_memory(make, &script, limit, |work| allocation_counter::measure(work).bytes_max);
}

#[test]
fn the_document_prints_the_state_table() {
    let printed: String =
        TRANSITIONS.iter().map(|(from, cause, to)| format!("| {from:?} | {cause:?} | {to:?} |\n")).collect();
    let document = include_str!("../../../../../docs/protocol/hop.md");
    let (_, table) = document.split_once("| state | cause | next |\n|---|---|---|\n").expect("the table's head");
    let rows: String = table.lines().take_while(|line| line.starts_with('|')).map(|line| format!("{line}\n")).collect();
    assert_eq!(rows, printed, "docs/protocol/hop.md must hold this table:\n{printed}");
}

#[test]
fn every_state_is_reached_and_left() {
    for state in [State::Opening, State::Asked, State::Open, State::Ending, State::Done] {
        assert!(TRANSITIONS.iter().any(|(from, ..)| *from == state));
        let entry = matches!(state, State::Opening | State::Asked);
        assert!(entry || TRANSITIONS.iter().any(|(.., to)| *to == state));
    }
    let pairs: BTreeSet<String> = TRANSITIONS.iter().map(|(from, why, _)| format!("{from:?} {why:?}")).collect();
    assert_eq!(pairs.len(), TRANSITIONS.len(), "one outcome per cause");
    assert!(TRANSITIONS.iter().all(|(from, ..)| *from != State::Gone));
}

#[test]
fn need_follows_the_published_formula() {
    // BDP 250,000 octets = 213 packets; ln 213 / ln 20 = 1.79, so 3.79 x BDP. Integer logarithms stay within 25 %.
    let need = incoming::need_for(250_000, 0.05);
    assert!((710_000..1_185_000).contains(&need), "{need}");
    assert!(incoming::need_for(250_000, 0.0) < incoming::need_for(250_000, 0.3));
}
