//! Bytes that the neighbour overheard: it gets their digests, and what it did not hear or has no more is sent.

use super::*;
use wavelane_transport::Digest;
use wavelane_transport::session::digest_of;
use wavelane_wire::frame::{Answered, HEARD_MAX, Seal, Word};

/// Octets of one open stretch.
const STRETCH: u64 = 1_000;

fn sealed_passage() -> Option<Passage> {
    Some(Passage {
        token: [7; 16],
        hops: 1,
        seal: Some(Seal::Word(Word { count: 0, tag: [0; 16] })),
        ..Passage::default()
    })
}

fn bytes_at(start: u64, end: u64) -> Vec<u8> {
    (start..end).map(|at| pattern(0, 0, at)).collect()
}

/// A relay (side 0) that forwards stretches which came to it openly, and its neighbour, which heard some of them.
struct Cell {
    world: World,
    near: FlowName,
    far: FlowName,
    /// What the neighbour has, by digest.
    kept: BTreeMap<Digest, Vec<u8>>,
    /// Bytes that came to the relay and were written, and that the neighbour's application read.
    came: u64,
    written: u64,
    read: u64,
}

impl Cell {
    fn new(loss: Ratio) -> Self {
        let pipe = Pipe { loss, delay: Span::from_millis(2), ..Pipe::default() };
        let world = World::new(5, pipe, HopConfig::default());
        let none = FlowName { mine: true, number: u64::MAX };
        let mut cell = Self { world, near: none, far: none, kept: BTreeMap::new(), came: 0, written: 0, read: 0 };
        cell.opens();
        cell
    }
    /// The flow from now on is another one.
    fn opens(&mut self) {
        let world = &mut self.world;
        self.near = world.hops[0].open(world.now, source(), target(), sealed_passage()).unwrap();
        self.far = self.near.from_other_side();
        while !world.hops[1].flows.contains_key(&self.far) {
            world.step(ms(60_000));
        }
        world.hops[1].accept(world.now, self.far, Some(Answered::default()));
        world.events[0].clear();
        while !world.events[0].iter().any(|event| matches!(event, HopEvent::Accepted(..))) {
            world.step(ms(60_000));
        }
    }
    /// A stretch came to the relay; whether the neighbour heard it.
    fn comes(&mut self, heard: bool) {
        let (start, now) = (self.came, self.world.now);
        let bytes = bytes_at(start, start + STRETCH);
        let digest = digest_of(&bytes);
        self.came += STRETCH;
        self.world.hops[0].know_digest(now, self.near, (start, STRETCH), digest);
        if heard {
            self.world.hops[1].note_heard(now, 1, &digest);
            self.kept.insert(digest, bytes);
        }
    }
    /// Time passes in steps of a millisecond; everything is forwarded, read and checked.
    fn runs(&mut self, steps: u64) {
        for _ in 0..steps {
            let now = self.world.now;
            let waits = bytes_at(self.written, self.came.min(self.written + 20_000));
            self.written += self.world.hops[0].write(now, self.near, &waits) as u64;
            self.world.run_until(now + Span::from_millis(1));
            for event in core::mem::take(&mut self.world.events[1]) {
                if let HopEvent::ByDigest(name, offset, len, digest) = event
                    && let Some(bytes) = self.kept.get(&digest)
                {
                    assert_eq!(bytes.len() as u64, len);
                    self.world.hops[1].take_overheard(self.world.now, name, offset, bytes);
                }
            }
            let mut buf = [0; 30_000];
            while let ReadOutcome::Data(n) = self.world.hops[1].read(self.world.now, self.far, &mut buf) {
                assert!(buf[..n].iter().zip(self.read..).all(|(b, at)| *b == pattern(0, 0, at)));
                self.read += n as u64;
            }
        }
    }
    fn counters(&self, side: usize) -> Counters {
        self.world.hops[side].counters()
    }
}

#[test]
fn heard_bytes_go_by_digest_and_the_others_as_they_are() {
    let mut cell = Cell::new(Ratio::ZERO);
    for n in 0..400 {
        cell.comes(n % 2 == 1);
        cell.runs(1);
    }
    cell.runs(300);
    assert_eq!((cell.came, cell.read), (400_000, 400_000));
    let (sent, taken) = (cell.counters(0), cell.counters(1));
    assert_eq!(sent.first_octets + sent.by_digest_octets, 400_000);
    // The first report makes the relay wait for others; it arrives after 25 ms at most.
    assert!((180_000..=200_000).contains(&sent.by_digest_octets), "{sent:?}");
    assert_eq!((taken.overheard_octets, sent.repair_octets, sent.protocol_errors), (sent.by_digest_octets, 0, 0));
    let relay = &cell.world.hops[0].relay;
    assert_eq!(relay.digests()[1], 0, "what was sent is forgotten: {relay:?}");
}

#[test]
fn octets_that_are_gone_are_sent() {
    for loss in [Ratio::ZERO, ratio(1, 10)] {
        let mut cell = Cell::new(loss);
        for n in 0..300 {
            cell.comes(true);
            if n % 3 == 0 {
                // It was reported and is evicted before it is named.
                cell.kept.clear();
            }
            cell.runs(1);
        }
        cell.runs(3_000);
        assert_eq!((cell.came, cell.read), (300_000, 300_000));
        let sent = cell.counters(0);
        assert!(sent.contradicted_octets > 50_000 && sent.by_digest_octets > 150_000, "{sent:?}");
    }
}

#[test]
fn bytes_wait_for_reports_only_where_some_come_and_not_for_long() {
    let mut cell = Cell::new(Ratio::ZERO);
    cell.comes(false);
    cell.runs(10);
    assert_eq!(cell.read, STRETCH, "nothing was reported yet");
    // One that overtook the bytes it is about, because the relay lost the first sending of those.
    let early = digest_of(&bytes_at(STRETCH, 2 * STRETCH));
    cell.kept.insert(early, bytes_at(STRETCH, 2 * STRETCH));
    cell.world.hops[1].note_heard(cell.world.now, 1, &early);
    cell.runs(40);
    cell.comes(false);
    cell.runs(10);
    assert_eq!((cell.read, cell.counters(0).by_digest_octets), (2 * STRETCH, STRETCH));
    cell.comes(false);
    cell.runs(90);
    assert_eq!(cell.read, 2 * STRETCH, "it waits for a report");
    cell.runs(20);
    assert_eq!(cell.read, 3 * STRETCH, "and leaves without one");
    // Reports of other flows' octets go on: this one's bytes soon wait no more.
    for n in 0..200_u64 {
        cell.world.hops[1].note_heard(cell.world.now, 1, &digest_of(&n.to_be_bytes()));
        cell.comes(false);
        cell.runs(10);
    }
    let behind = cell.came - cell.read;
    assert!(behind <= STRETCH, "{behind}");
}

#[test]
fn a_report_releases_what_came_before_and_was_not_heard() {
    let mut cell = Cell::new(Ratio::ZERO);
    cell.world.hops[1].note_heard(cell.world.now, 1, &[9; 16]);
    cell.runs(30);
    for n in 0..6 {
        cell.comes(n == 3);
    }
    cell.runs(35);
    assert_eq!(cell.read, 4 * STRETCH, "the report comes after 20 ms, and says nothing of the last two");
    cell.runs(100);
    assert_eq!(cell.read, 6 * STRETCH);
}

#[test]
fn only_the_bytes_of_sealed_flows_across_relays_are_open() {
    let opened = |passage: Option<Passage>, edge: Option<Answered>| {
        let mut world = World::new(5, Pipe::default(), HopConfig::default());
        let near = world.hops[0].open(world.now, source(), target(), passage).unwrap();
        while world.hops[1].flows.is_empty() {
            world.step(ms(60_000));
        }
        world.hops[1].accept(world.now, near.from_other_side(), edge);
        while !world.events[0].iter().any(|event| matches!(event, HopEvent::Accepted(..))) {
            world.step(ms(60_000));
        }
        let now = world.now;
        assert_eq!(world.hops[0].write(now, near, &bytes_at(0, 50_000)), 50_000);
        let (mut buf, mut carried, mut open) = ([0; MTU_PAYLOAD], Vec::new(), 0);
        let mut w = Writer::new(&mut buf);
        let Lone { hop, budget } = &mut world.hops[0];
        let mut out = Datagram { w: &mut w, carried: &mut carried, open: Some(&mut open), budget };
        assert!(hop.fill(now, Class::Bulk, &mut out));
        let len = w.len();
        let Some(Ok(Frame::Data { offset, bytes, .. })) = Frames::new(&buf[..len]).last() else { panic!("no data") };
        assert_eq!(bytes, bytes_at(offset, offset + bytes.len() as u64));
        (len, open, bytes.len())
    };
    let (len, open, octets) = opened(sealed_passage(), Some(Answered::default()));
    assert_eq!((len, open), (MTU_PAYLOAD - 2, octets), "room is left for the length");
    let plain = Passage { seal: None, ..sealed_passage().unwrap() };
    for (passage, edge) in [(Some(plain), Some(Answered::default())), (sealed_passage(), None), (None, None)] {
        let (len, open, _) = opened(passage, edge);
        assert_eq!((len, open), (MTU_PAYLOAD, 0), "{passage:?}");
    }
}

/// A neighbour that reports what it likes, and names digests that nobody has, holds nothing up for long and fills no table.
#[test]
fn false_reports_and_digests_cost_little() {
    let mut cell = Cell::new(Ratio::ZERO);
    let digests = |n: u64| -> Vec<u8> { (0..HEARD_MAX as u64).flat_map(|i| (n << 8 | i).to_be_bytes()).collect() };
    for n in 0..2_000 {
        let digests = digests(n);
        cell.world.hops[0].handle_frame(cell.world.now, &Frame::Heard { digests: &digests });
        cell.world.hops[1].note_heard(cell.world.now, n % 40, &digest_of(&digests));
    }
    let (near, far) = (cell.near, cell.far);
    let named = |flow, offset| Frame::DataByDigest { flow, offset, len: 1_000, digest: [3; 16] };
    for n in 0..2_000 {
        cell.world.hops[0].know_digest(cell.world.now, near, (1_000_000_000 + n * 10, 10), digest_of(&n.to_be_bytes()));
        cell.world.hops[1].handle_frame(cell.world.now, &named(far.from_other_side(), n * 7));
        let other = FlowName { mine: true, number: 1_000 + n };
        cell.world.hops[1].handle_frame(cell.world.now, &named(other, 0));
    }
    let sizes = cell.world.hops.each_ref().map(|hop| hop.relay.digests());
    assert!(
        sizes.iter().all(|[heard, known, early]| *heard <= 16 * HEARD_MAX && *known <= 4_096 && *early <= 256),
        "{sizes:?}"
    );
    assert_eq!(cell.world.hops[1].events.len(), 2_000, "none for flows that are not there");
    for _ in 0..100 {
        cell.comes(false);
    }
    cell.runs(400);
    assert_eq!(cell.read, 100_000);
    cell.world.hops[0].reset(near, Reason::Aborted);
    cell.runs(100);
    assert_eq!(cell.world.hops[0].relay.digests()[1], 0, "digests go with their flow");
    assert!(!cell.world.hops[0].has_sealed_flows() && !cell.world.hops[1].has_sealed_flows());
}

/// The far edge of one flow does not read, or the flow's sender has its bytes lie at the relay on purpose.
#[test]
fn a_flow_that_stands_still_does_not_take_the_place_of_others() {
    let mut cell = Cell::new(Ratio::ZERO);
    let still = cell.near;
    for n in 0..10_000_u64 {
        cell.world.hops[0].know_digest(cell.world.now, still, (n * STRETCH, STRETCH), digest_of(&n.to_be_bytes()));
    }
    assert_eq!(cell.world.hops[0].relay.digests()[1], 4_096);
    cell.opens();
    for _ in 0..100 {
        cell.comes(true);
        cell.runs(1);
    }
    cell.runs(300);
    assert_eq!((cell.came, cell.read), (100_000, 100_000));
    let sent = cell.counters(0);
    assert!(sent.by_digest_octets >= 90_000, "{sent:?}");
    assert!(cell.world.hops[0].relay.digests()[1] <= 4_096);
}

/// Nobody keeps stretches this short: their digests would only take the place of others'.
#[test]
fn short_stretches_are_not_known() {
    let mut cell = Cell::new(Ratio::ZERO);
    let (now, far) = (cell.world.now, cell.far);
    for (offset, len, known) in [(0, 255, false), (255, 256, true)] {
        let bytes = bytes_at(offset, offset + len);
        let frame = Frame::Data { flow: far.from_other_side(), offset, bytes: &bytes };
        cell.world.hops[1].handle_frame(now, &frame);
        cell.world.hops[1].note_open(&frame, digest_of(&bytes));
        let events = core::iter::from_fn(|| cell.world.hops[1].poll_event());
        assert_eq!(events.filter(|event| matches!(event, HopEvent::Open(..))).count() > 0, known, "{len}");
    }
}
