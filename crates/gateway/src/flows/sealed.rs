//! Flows sealed by their edges: relays carry parcels that they can neither read nor change unnoticed, and words that they cannot
//! forge. When an edge detects tampering by a relay, the flow leaves that way; it continues over another one, or retries the
//! same, and ends when nothing authentic arrives for too long.

use super::edge::{Edge, Role};
use super::scratch::OPENED_MAX;
use super::{Around, Flows};
use crate::neighbours::{NOTICE_EVERY, Side};
use crate::routing::Net;
use crate::{GatewayEvent, PeerId};
use std::net::SocketAddr;
use std::sync::Arc;
use wavelane_base::{FlowId, Instant, ReadOutcome, Span};
use wavelane_transport::seal::{Asked, Asking, FlowKeys, Heard, Opened, has_whole};
use wavelane_wire::frame::{ANSWER_KEYS_LEN, Answered, OPEN_KEYS_LEN, Passage, Reach, Reason, Seal, Word};
use wavelane_wire::parcel::{PARCEL_OVERHEAD, PARCEL_PLAIN_MAX, WordIn, flow_prologue};

/// Minimum octets of a parcel unless there are no more.
const PARCEL_MIN: usize = 1024;
/// A flow ends when it has left ways because of an edge's distrust more often than this without an octet delivered ...
const DISTRUST_MAX: u32 = 4;
/// ... and the first time was at least this long ago, regardless of what got through since: enough to try several ways even if
/// octets are withheld on each, and short enough that without another way the applications are told within a minute. A partition
/// counts once: the next request waits in it.
const DISTRUST_FOR: Span = Span::from_secs(35);
/// A flow that stayed on a way for this long starts a new row.
const DISTRUST_REST: Span = Span::from_secs(30);
/// Or more often than this, regardless of time.
const DISTRUST_MOST: u32 = 40;
/// For the first so many ways in a row, the wait for the other edge is only as long as it takes to tell it from a silent one:
/// many combinations of the relays' choices may have to be tried before an honest one. Later ways get longer waits, because an
/// honest way may have become slow.
const QUICK_WAYS: u32 = 20;
/// That wait is this many times the RTT between the edges on this way ...
const QUICK_RTTS: u64 = 4;
/// ... but at least this: an edge delays its word about a few octets by 100 ms, and the word may be lost once.
const QUICK_MIN: Span = Span::from_millis(500);
/// The keys of a flow, agreed on or asked for.
#[derive(Debug)]
pub(crate) enum Sealing {
    Asking(Box<Asking>),
    Agreed(Box<Agreed>),
}

/// What an edge needs to seal and open.
#[derive(Debug)]
pub(crate) struct Agreed {
    keys: FlowKeys,
    /// At the answering edge: the request's keys message and its answer.
    answer: Option<([u8; OPEN_KEYS_LEN], [u8; ANSWER_KEYS_LEN])>,
    /// The flow's target, and at the answering edge who asked for it: for the operator.
    target: SocketAddr,
    caller: Option<[u8; 32]>,
    /// The plaintext opened last, and how much of it was read. It counts as delivered to the application.
    plain: Vec<u8>,
    taken: usize,
}

impl Agreed {
    fn new(keys: FlowKeys, target: SocketAddr, answer: Option<([u8; OPEN_KEYS_LEN], [u8; ANSWER_KEYS_LEN])>) -> Self {
        Self { keys, answer, target, caller: None, plain: Vec::new(), taken: 0 }
    }
    #[cfg(test)]
    pub(crate) fn asked_with(&self) -> Option<[u8; OPEN_KEYS_LEN]> {
        self.answer.map(|(asked, _)| asked)
    }
    fn unread(&self) -> &[u8] {
        &self.plain[self.taken..]
    }
    /// Marks octets as read. Returns the buffer if nothing else is in it.
    fn take(&mut self, octets: usize) -> Option<Vec<u8>> {
        self.taken += octets;
        if self.taken < self.plain.len() {
            return None;
        }
        self.taken = 0;
        Some(core::mem::take(&mut self.plain))
    }
}

/// Consecutive ways that a flow left because one of the edges distrusted them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    since: Instant,
    last: Instant,
    ways: u32,
}

/// Why an edge no longer trusts a flow's way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Deceit {
    /// Octets that do not open: changed, omitted, duplicated or reordered.
    Parcel,
    /// A word that is not the other edge's.
    Word,
    /// Octets that were receipted and do not arrive.
    Withheld,
}

impl Edge {
    /// Whether it is sealed against relays.
    pub(super) fn is_sealed(&self) -> bool {
        self.seal.is_some()
    }
    /// The ways left in a row, if the last was left recently.
    fn row(&self, now: Instant) -> Option<Row> {
        self.distrusted.filter(|row| now.since(row.last) < DISTRUST_REST)
    }
    /// Whether an honest way is looked for.
    pub(super) fn looks_for_way(&self, now: Instant) -> bool {
        self.row(now).is_some()
    }
    /// Maximum wait for the other edge, if shorter than usual.
    pub(super) fn patience(&self, now: Instant) -> Span {
        let quick = self.row(now).filter(|row| row.ways <= QUICK_WAYS).and(self.way_rtt);
        quick.map_or(Span::MAX, |rtt| rtt.times(QUICK_RTTS).max(QUICK_MIN))
    }
    /// Its target, if known here.
    fn target(&self) -> Option<SocketAddr> {
        match (&self.seal, self.role) {
            (_, Role::Opener { target, .. }) => Some(target),
            (Some(Sealing::Agreed(agreed)), Role::Answerer) => Some(agreed.target),
            _ => None,
        }
    }
    /// Who asked for a sealed flow, at its answering edge.
    pub(super) fn caller(&self) -> Option<[u8; 32]> {
        match &self.seal {
            Some(Sealing::Agreed(agreed)) => agreed.caller,
            _ => None,
        }
    }
    /// Takes opened plaintext that will not be read.
    pub(super) fn take_opened(&mut self) -> Vec<u8> {
        self.agreed().map(|agreed| core::mem::take(&mut agreed.plain)).unwrap_or_default()
    }
    fn agreed(&mut self) -> Option<&mut Agreed> {
        match &mut self.seal {
            Some(Sealing::Agreed(agreed)) => Some(agreed),
            _ => None,
        }
    }
    /// Whether bytes may be written: keys are agreed on, if needed.
    pub(super) fn can_seal(&self) -> bool {
        !matches!(self.seal, Some(Sealing::Asking(_)))
    }
    /// The seal of an Open.
    pub(super) fn open_seal(&mut self) -> Option<Seal<OPEN_KEYS_LEN>> {
        let (place, reach) = (WordIn::Open(self.attempt), Reach { finished: false, ..self.reach });
        Some(match self.seal.as_mut()? {
            Sealing::Asking(asking) => Seal::Keys(asking.message()),
            Sealing::Agreed(agreed) => Seal::Word(agreed.keys.word(place, reach)),
        })
    }
    /// The content of an Answer: our keys if keys were requested, else our word.
    pub(super) fn answered(&mut self, with_keys: bool) -> Answered {
        let reach = Reach { finished: false, ..self.reach };
        let seal = self.agreed().map(|agreed| match agreed.answer.filter(|_| with_keys) {
            Some((_, answer)) => Seal::Keys(answer),
            None => Seal::Word(agreed.keys.word(WordIn::Answer, reach)),
        });
        Answered { received: reach.received, seal }
    }
    /// Our reach, for the other edge.
    pub(super) fn say_reach(&mut self) -> (Reach, Option<Word>) {
        // The answering edge adds the end once it knows of the other one's: its last word says both.
        let finished = self.reach.finished && (self.other_finished || matches!(self.role, Role::Opener { .. }));
        let reach = Reach { finished, ..self.reach };
        (reach, self.agreed().map(|agreed| agreed.keys.word(WordIn::Progress, reach)))
    }
    /// What the answering edge says of a flow that ended well, if it is asked for again.
    pub(super) fn end(&mut self) -> Answered {
        let (reach, word) = self.say_reach();
        Answered { received: reach.received, seal: word.map(Seal::Word) }
    }
    /// Takes what the answering edge of a sealed flow says of its end. Returns whether that proves it.
    pub(super) fn hear_end(&mut self, ended: Option<Answered>) -> bool {
        if let Some(Answered { received, seal: Some(Seal::Word(word)) }) = ended {
            self.hear(Reach { received, finished: true }, Some(word));
        }
        self.other_finished
    }
    /// Whether the other edge's application has everything, as far as this edge can know.
    pub(super) fn knows_end(&self) -> bool {
        self.other_finished || !self.is_sealed()
    }
    /// Appends the final parcel after what was written.
    fn seal_end(&mut self) {
        if let Some(agreed) = self.agreed() {
            let mut out = Vec::new();
            agreed.keys.seal(&[], &mut out);
            self.keep(&out);
        }
    }
    /// Whether an Open that resumes the flow, or repeats its first one, is the other edge's.
    fn resumes(&mut self, passage: &Passage) -> bool {
        let reach = Reach { received: passage.received.unwrap_or(0), finished: false };
        let begun = self.has_begun();
        match (&mut self.seal, passage.seal) {
            (None, None) => true,
            (Some(Sealing::Agreed(agreed)), Some(Seal::Keys(message))) => {
                // Every relay of the first way has this message. Once octets got through, the other edge has the answer, and
                // sends words.
                !begun && passage.received.is_none() && agreed.answer.is_some_and(|(asked, _)| asked == message)
            }
            (Some(Sealing::Agreed(agreed)), Some(Seal::Word(word))) => {
                let place = WordIn::Open(passage.attempt);
                passage.received.is_some() && agreed.keys.hear(place, reach, word) == Heard::News
            }
            _ => false,
        }
    }
    /// Takes the seal of an Answer. Returns whether it is the other edge's.
    pub(super) fn take_answer(&mut self, answered: Answered) -> bool {
        let reach = Reach { received: answered.received, finished: false };
        let target = self.target();
        match (&mut self.seal, answered.seal) {
            (None, None) => true,
            (Some(Sealing::Asking(asking)), Some(Seal::Keys(message))) => {
                let Some((keys, target)) = asking.agree(&message).zip(target) else { return false };
                self.seal = Some(Sealing::Agreed(Box::new(Agreed::new(keys, target, None))));
                if self.ended {
                    self.seal_end();
                }
                true
            }
            (Some(Sealing::Agreed(agreed)), Some(Seal::Word(word))) => {
                agreed.keys.hear(WordIn::Answer, reach, word) == Heard::News
            }
            _ => false,
        }
    }
    /// Takes the other edge's reach. `News` if it may be acted upon.
    pub(super) fn hear(&mut self, reach: Reach, word: Option<Word>) -> Heard {
        let heard = match (&mut self.seal, word) {
            (None, _) => Heard::News,
            (Some(Sealing::Agreed(agreed)), Some(word)) => agreed.keys.hear(WordIn::Progress, reach, word),
            // A word that overtook the answer is sent again.
            (Some(Sealing::Asking(_)), Some(_)) => Heard::Old,
            (Some(_), None) => Heard::Forged,
        };
        self.other_finished |= heard == Heard::News && reach.finished;
        heard
    }
}

impl Flows {
    /// The key request, if the flow is to be sealed: its egress is known and is not the neighbour, or other ways may be taken.
    pub(super) fn ask_for_keys(net: &mut Net, peer: PeerId, choice: bool, around: &Around) -> Option<Sealing> {
        let config = net.peers.config();
        let egress = config.egress_key(around.target.ip())?;
        if !choice && egress == net.peers.peer(peer).public_key {
            return None;
        }
        let (own, aes) = (Arc::clone(net.peers.statics()), config.aes_hardware);
        let asking = Asking::new(net.peers.dice(), &own, &egress, &around.prologue(), aes);
        Some(Sealing::Asking(Box::new(asking)))
    }

    /// The keys of a flow that a neighbour asks for, or why it is refused: flows across relays must be sealed, by known callers.
    pub(super) fn agree_on_keys(
        &mut self,
        net: &mut Net,
        (now, peer): (Instant, PeerId),
        around: &Around,
        passage: Option<&Passage>,
    ) -> Result<Option<Sealing>, Reason> {
        let seals = net.peers.config().seal;
        let keys = match passage.map(|passage| (passage.seal, passage.hops)) {
            Some((Some(Seal::Keys(keys)), _)) if seals => keys,
            Some((Some(_), _)) => return self.refuse_keys(),
            Some((None, hops)) if seals && hops > 0 => return self.refuse_keys(),
            Some((None, _)) | None => return Ok(None),
        };
        // Last of all checks, because it costs the most.
        if !self.labour.agree(now, peer.0, net.peers.late()) {
            return Err(Reason::NoRoom);
        }
        let (own, aes) = (Arc::clone(net.peers.statics()), net.peers.config().aes_hardware);
        let asked = Asked::read(net.peers.dice(), &own, &around.prologue(), aes, &keys);
        let known = |caller: [u8; 32]| net.peers.config().knows(&caller);
        let Some(asked) = asked.ok().filter(|asked| known(asked.caller())) else { return self.refuse_keys() };
        let caller = Some(asked.caller());
        let (answer, agreed) = asked.agree();
        let agreed = Agreed { caller, ..Agreed::new(agreed, around.target, Some((keys, answer))) };
        Ok(Some(Sealing::Agreed(Box::new(agreed))))
    }

    fn refuse_keys<T>(&mut self) -> Result<T, Reason> {
        self.counters.refused_seals += 1;
        Err(Reason::Prohibited)
    }

    /// Whether a request for a flow that we have is the other edge's.
    pub(super) fn is_resumed_by_edge(&mut self, id: FlowId, passage: &Passage) -> bool {
        let honest = self.table.edge(id).is_some_and(|edge| edge.resumes(passage));
        self.counters.dropped_words_forged += u64::from(!honest);
        honest
    }

    /// A relay on the current way tampers or withholds: the flow leaves it.
    pub(super) fn distrust(&mut self, net: &mut Net, now: Instant, id: FlowId, deceit: Deceit) {
        let Some((peer, name)) = self.table.find(id) else { return };
        let target = self.table.edge(id).and_then(|edge| edge.target());
        let way = self.known_way(net.peers.config(), id);
        let (counter, what) = match deceit {
            Deceit::Parcel => (&mut self.counters.dropped_parcels_foreign, "octets that do not open"),
            Deceit::Word => (&mut self.counters.dropped_words_forged, "a word that is not the other edge's"),
            Deceit::Withheld => (&mut self.counters.withheld, "no word of octets that it took"),
        };
        *counter += 1;
        net.peers.note_distrust(peer, (now, what, target, way));
        let over = self.is_distrusted_for_good(now, id);
        // The other edge need not wait for a flow that is over.
        net.peers.blocks(peer).reset(name, if over { Reason::Aborted } else { Reason::Corrupted });
        net.peers.touch(peer);
        if over { self.end_distrusted(net, now, id) } else { self.lost(net, now, id, Reason::Corrupted) }
    }

    /// One of the edges left a sealed flow's way. Returns whether the limit is exceeded.
    pub(super) fn is_distrusted_for_good(&mut self, now: Instant, id: FlowId) -> bool {
        let Some(edge) = self.table.edge(id).filter(|edge| edge.is_sealed()) else { return false };
        let in_row = edge.row(now);
        let row = in_row.unwrap_or(Row { since: now, last: now, ways: 0 });
        edge.distrusts = if in_row.is_some() { edge.distrusts + 1 } else { 1 };
        edge.distrusted = Some(Row { last: now, ways: row.ways.saturating_add(1), ..row });
        let long = now.since(row.since) >= DISTRUST_FOR;
        edge.distrusts > DISTRUST_MAX && long || edge.distrusts > DISTRUST_MOST
    }

    /// No way carries a sealed flow intact: it is over.
    pub(super) fn end_distrusted(&mut self, net: &mut Net, now: Instant, id: FlowId) {
        let Some(edge) = self.table.edge(id) else { return };
        let (accepted, ways, target) = (edge.accepted, edge.distrusts, edge.target());
        self.counters.corrupted += 1;
        if self.corrupted_told.is_none_or(|at| now.since(at) >= NOTICE_EVERY) {
            self.corrupted_told = Some(now);
            let flow = target.map(|target| format!(" to {target}")).unwrap_or_default();
            let text = format!("a flow{flow} was reset: it left {ways} ways in a row, because none carried it intact");
            net.peers.tell(GatewayEvent::Notice { peer: None, text });
        }
        self.end(net, id, Reason::Corrupted, accepted);
    }

    /// Writes as many octets as fit into parcels in the available room.
    pub(super) fn write_sealed(&mut self, net: &mut Net, now: Instant, flow: FlowId, data: &[u8]) -> usize {
        let edge_room = self.edge_room(flow);
        let Some((peer, name)) = self.table.find(flow) else {
            self.with_edge(flow, |edge| edge.writer_waits |= !data.is_empty());
            return 0;
        };
        net.peers.lend(peer);
        let room = net.peers.blocks(peer).room(name).min(edge_room);
        let mut out = self.scratch.lend_to_seal();
        let mut taken = 0;
        if let Some(agreed) = self.table.edge(flow).and_then(Edge::agreed) {
            while taken < data.len() {
                let fits = plain_room(room - out.len()).min(PARCEL_PLAIN_MAX).min(data.len() - taken);
                if fits == 0 || fits < PARCEL_MIN && taken + fits < data.len() {
                    break;
                }
                taken += agreed.keys.seal(&data[taken..taken + fits], &mut out);
            }
        }
        if taken > 0 {
            let written = net.peers.blocks(peer).write(now, name, &out);
            assert_eq!(written, out.len(), "there was room, and what is sealed cannot be sealed again");
            self.with_edge(flow, |edge| edge.wrote(&out));
        }
        self.scratch.take_sealed(out);
        if taken < data.len() {
            self.with_edge(flow, |edge| edge.writer_waits = true);
            net.peers.blocks(peer).want_room(now, name);
        }
        self.watch_vtx(net, now, flow);
        net.peers.touch(peer);
        taken
    }

    /// Our direction ends: its final parcel follows what was written.
    pub(super) fn shutdown_sealed(&mut self, net: &mut Net, now: Instant, flow: FlowId) {
        self.with_edge(flow, |edge| {
            if !core::mem::replace(&mut edge.ended, true) {
                edge.seal_end();
            }
        });
        self.replay(net, now, flow);
        if let Some((peer, _)) = self.table.find(flow) {
            net.peers.touch(peer);
        }
    }

    /// Opens the next parcels if no plaintext is unread. Returns whether any is unread.
    pub(crate) fn open_next(&mut self, net: &mut Net, now: Instant, flow: FlowId) -> bool {
        let Some((peer, name)) = self.table.find(flow) else {
            return self.table.edge(flow).and_then(Edge::agreed).is_some_and(|agreed| !agreed.unread().is_empty());
        };
        let parts = net.peers.blocks(peer).unread(name);
        let Some(agreed) = self.table.edge(flow).and_then(Edge::agreed) else { return false };
        if !agreed.unread().is_empty() {
            return true;
        }
        let most = self.scratch.most();
        let (mut octets, mut plain, mut last) = (0, self.scratch.lend_to_open(), Opened::Part);
        while plain.len() + PARCEL_PLAIN_MAX <= most {
            last = agreed.keys.open(after(parts, octets), &mut plain);
            match last {
                Opened::Bytes(whole) => octets += whole,
                Opened::End(whole) => {
                    octets += whole;
                    break;
                }
                Opened::Part | Opened::Foreign => break,
            }
        }
        if octets > 0 {
            // A foreign parcel after it is met again at the next call.
            let any = !plain.is_empty();
            agreed.plain = self.scratch.hold(plain);
            agreed.taken = 0;
            self.consume_parcels(net, now, flow, (peer, name), octets);
            return any;
        }
        self.scratch.put_back(plain);
        if last == Opened::Foreign {
            self.distrust(net, now, flow, Deceit::Parcel);
            net.peers.touch(peer);
        }
        false
    }

    fn consume_parcels(&mut self, net: &mut Net, now: Instant, flow: FlowId, side: Side, octets: usize) {
        if let Some(edge) = self.table.edge(flow) {
            edge.distrusts = 0;
        }
        net.peers.lend(side.0);
        let outcome = net.peers.blocks(side.0).consume(now, side.1, octets);
        self.tell_reach(net, now, flow, side, outcome);
        net.peers.touch(side.0);
    }

    /// Reads what was opened.
    pub(crate) fn read_opened(&mut self, flow: FlowId, buf: &mut [u8]) -> ReadOutcome {
        let Some(agreed) = self.table.edge(flow).and_then(Edge::agreed) else { return ReadOutcome::Reset };
        let octets = agreed.unread().len().min(buf.len());
        buf[..octets].copy_from_slice(&agreed.unread()[..octets]);
        if let Some(empty) = agreed.take(octets) {
            self.scratch.release(empty);
        }
        if octets > 0 { ReadOutcome::Data(octets) } else { ReadOutcome::Blocked }
    }

    /// Reads where nothing is open: the end, or why there is nothing.
    pub(crate) fn read_end(&mut self, net: &mut Net, now: Instant, flow: FlowId) -> ReadOutcome {
        let Some(edge) = self.table.edge(flow) else { return ReadOutcome::Reset };
        if edge.reach.finished {
            return ReadOutcome::End;
        }
        // Octets that overtook the answer wait for the keys that it brings.
        let Some(agreed) = edge.agreed() else { return ReadOutcome::Blocked };
        let has_ended = agreed.keys.has_ended();
        let Some((peer, name)) = self.table.find(flow) else { return ReadOutcome::Blocked };
        net.peers.lend(peer);
        let hop = net.peers.blocks(peer);
        if hop.is_received(name) {
            // No more bytes follow that would complete a parcel.
            let (front, back) = hop.unread(name);
            let rest = front.len() + back.len();
            hop.consume(now, name, rest);
        }
        let outcome = match hop.consume(now, name, 0) {
            ReadOutcome::End if !has_ended => {
                self.distrust(net, now, flow, Deceit::Parcel);
                ReadOutcome::Blocked
            }
            outcome => {
                self.tell_reach(net, now, flow, (peer, name), outcome);
                outcome
            }
        };
        net.peers.touch(peer);
        outcome
    }

    /// What is open and unread.
    pub(crate) fn opened(&mut self, flow: FlowId) -> &[u8] {
        self.table.edge(flow).and_then(Edge::agreed).map_or(&[], |agreed| agreed.unread())
    }

    pub(super) fn consume_sealed(&mut self, flow: FlowId, octets: usize) {
        let Some(agreed) = self.table.edge(flow).and_then(Edge::agreed) else { return };
        if let Some(empty) = agreed.take(octets.min(agreed.unread().len())) {
            self.scratch.release(empty);
        }
    }

    /// Whether our application leaves received parcels unread.
    pub(super) fn reader_pauses(&mut self, net: &mut Net, flow: FlowId, (peer, name): Side) -> bool {
        let whole = has_whole(net.peers.blocks(peer).unread(name));
        self.table.edge(flow).and_then(Edge::agreed).is_some_and(|agreed| whole || !agreed.unread().is_empty())
    }

    /// Whether the flow's edges seal it.
    pub(crate) fn is_sealed(&mut self, flow: FlowId) -> bool {
        self.table.edge(flow).is_some_and(|edge| edge.is_sealed())
    }
}

/// Two parts without their first `octets`.
fn after<'a>((front, back): (&'a [u8], &'a [u8]), octets: usize) -> (&'a [u8], &'a [u8]) {
    (front.get(octets..).unwrap_or(&[]), back.get(octets.saturating_sub(front.len())..).unwrap_or(&[]))
}

/// Plaintext octets that parcels in `room` hold.
pub(super) fn plain_room(room: usize) -> usize {
    let whole = PARCEL_PLAIN_MAX + PARCEL_OVERHEAD;
    room / whole * PARCEL_PLAIN_MAX + (room % whole).saturating_sub(PARCEL_OVERHEAD)
}

/// Plaintext octets worth writing into `room`: whole parcels, at most as many as are opened at once, or else part of one.
pub(super) fn worthwhile(room: usize) -> usize {
    match plain_room(room).min(OPENED_MAX) {
        plain if plain < PARCEL_MIN => 0,
        plain if plain < PARCEL_PLAIN_MAX => plain,
        plain => plain - plain % PARCEL_PLAIN_MAX,
    }
}

impl Around {
    fn prologue(&self) -> Vec<u8> {
        flow_prologue(&self.token, self.source, self.target)
    }
}

/// The two addresses for a log line.
pub(super) fn unsealed_notice(target: SocketAddr) -> String {
    format!(
        "a flow to {target} crosses relays and no key is known to seal it with: name the gateway behind which {} is, and its key, in [[edge]]",
        target.ip()
    )
}
