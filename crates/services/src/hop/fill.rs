//! Filling datagrams: small frames first, then micro data within its byte budget, then bulk by deficit round robin.

use super::Hop;
use super::flow::{Flow, LastWord, State};
use super::outgoing::{Kind, RANGES_WHOLE, Stretch};
use super::relay::OPEN_MIN;
use super::schedule::{MICRO_RUN_MAX, QUANTUM};
use super::shares::FLOOR;
use super::sure::sends_max;
use super::types::{Carried, Item};
use wavelane_base::RangeSet;
use wavelane_base::{Class, Instant};
use wavelane_transport::{Digest, RepairBudget, VERY_THIN};
use wavelane_wire::Writer;
use wavelane_wire::codec::varint_len;
use wavelane_wire::datagram::OPEN_LEN_LEN;
use wavelane_wire::frame::{FlowName, Frame, Open, RANGES_MAX, Ranges, ReceiptState, emit_data_to_end};

/// Fewest payload bytes worth a data frame, unless the stretch is shorter.
const CHUNK_MIN: usize = 64;
/// Maximum size of an offer: type, three numbers, flags, length.
const OFFER_MAX: usize = 2 + 8 * 4;
/// Charged to the budget in addition to a small frame's or chunk's payload.
const COPY_OVERHEAD: u64 = 60;
/// Maximum size of a receipt without its ranges: type, flow, state, two offsets, count.
const RECEIPT_FIXED_MAX: usize = 1 + 8 + 1 + 8 + 8 + 2;

/// Small frames, in the order in which a flow writes them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Small {
    Open,
    Answer,
    Receipt,
    Reset,
    Finish,
    Offer,
    Progress,
    Vtx,
    AlreadyHave,
}

/// The order in which a flow's small frames are written, except [`GREETINGS`], which have their own account.
const SMALL_ORDER: [Small; 7] =
    [Small::Receipt, Small::Reset, Small::Finish, Small::Offer, Small::Progress, Small::Vtx, Small::AlreadyHave];
/// Frames that begin or refuse a flow.
const GREETINGS: [Small; 2] = [Small::Open, Small::Answer];

/// The datagram that is being filled, and what sending costs.
#[derive(Debug)]
pub struct Datagram<'a, 'w> {
    /// Where frames are appended.
    pub w: &'a mut Writer<'w>,
    /// What was written.
    pub carried: &'a mut Vec<Carried>,
    /// Whether the last octets may be left open for others to overhear, and how many of them are to be.
    pub open: Option<&'a mut usize>,
    /// The link's account: first transmissions credit it, retransmissions and copies debit it.
    pub budget: &'a mut RepairBudget,
}

impl Hop {
    /// Fills one datagram: appends whole frames of `class` and of more urgent classes, most urgent first, and records them in
    /// `out.carried`. The last may be data to the datagram's end, so nothing may be appended after. Returns whether anything was
    /// written; everything written elicits a lane ack.
    ///
    /// Pass the least urgent class that the lane permits now, so that receipts ride with data.
    pub fn fill(&mut self, now: Instant, class: Class, out: &mut Datagram<'_, '_>) -> bool {
        self.handle_timeout(now);
        let before = out.w.len();
        if self.fill_small(now, out) && class >= Class::Micro {
            while out.w.room() > CHUNK_MIN && self.fill_chunk(now, class, out) {}
        }
        out.w.len() > before
    }

    /// Writes every small frame that is due. `false` if the room ran out.
    fn fill_small(&mut self, now: Instant, out: &mut Datagram<'_, '_>) -> bool {
        while let Some(&flow) = self.strays.front() {
            let ranges = Ranges(Vec::new());
            let unknown = Frame::Receipt { flow, state: ReceiptState::Unknown, cumulative: 0, credit: 0, ranges };
            if unknown.emit(out.w).is_err() {
                return false;
            }
            self.counters.receipts += 1;
            self.strays.pop_front();
        }
        if !self.relay.write(out.w) {
            return false;
        }
        while let Some(name) = self.control.current() {
            for small in SMALL_ORDER {
                if !self.write_small(now, name, small, out) {
                    // Its Offer may have been written.
                    if let Some(flow) = self.flows.get_mut(&name) {
                        self.relay.note(name, flow);
                    }
                    return false;
                }
            }
            self.settle(name);
            self.control.advance();
        }
        self.fill_greetings(now, out)
    }

    /// Writes Opens, Answers and Forgets within their account. `false` if the room ran out.
    fn fill_greetings(&mut self, now: Instant, out: &mut Datagram<'_, '_>) -> bool {
        while self.greeting_waits() && self.greetings.is_open(now) {
            let before = out.w.len();
            if self.forget.due {
                if !self.write_forget(now, out) {
                    return false;
                }
            } else if let Some(name) = self.greeters.current() {
                for small in GREETINGS {
                    if !self.write_small(now, name, small, out) {
                        return false;
                    }
                }
                self.settle(name);
                self.greeters.advance();
            }
            self.greetings.spend(now, &self.path, (out.w.len() - before) as u64);
        }
        true
    }

    fn write_forget(&mut self, now: Instant, out: &mut Datagram<'_, '_>) -> bool {
        let below = self.lowest_mine();
        if (Frame::Forget { below, ranges: Ranges(Vec::new()) }).emit(out.w).is_err() {
            return false;
        }
        let serial = self.next_serial();
        self.forget.wrote(now, serial, &self.path, 1);
        self.forgotten = below;
        out.carried.push(Carried { flow: FlowName { mine: true, number: below }, item: Item::Forget, serial });
        true
    }

    /// Writes one small frame of a flow if it is due. `false` if it does not fit.
    fn write_small(&mut self, now: Instant, name: FlowName, small: Small, out: &mut Datagram<'_, '_>) -> bool {
        let room = self.unread_room();
        let Some(flow) = self.flows.get_mut(&name) else { return true };
        if !is_due(flow, small) {
            return true;
        }
        let before = out.w.len();
        let fits = if small == Small::Receipt {
            flow.promise(now, &self.path, room);
            let cap = flow.inc.cap(room);
            flow.inc.relieve(cap);
            let credit = flow.inc.tell_credit(cap);
            let most = if self.path.told_apart >= VERY_THIN { RANGES_WHOLE } else { RANGES_MAX };
            write_receipt(flow, name, credit, most, out.w)
        } else {
            frame_for(flow, name, small, now).emit(out.w).is_ok()
        };
        if !fits {
            return false;
        }
        self.serial += 1;
        let serial = self.serial;
        let octets = (out.w.len() - before) as u64 + COPY_OVERHEAD;
        let (sure, item) = match small {
            Small::Open => (&mut flow.open, Item::Open),
            Small::Answer => (&mut flow.answer, Item::Answer),
            Small::Reset => (&mut flow.reset, Item::Reset),
            Small::Finish => (&mut flow.out.finish, Item::Finish),
            Small::Offer => (&mut flow.out.query, Item::Offer),
            Small::Progress => {
                let Some(across) = &mut flow.across else { return true };
                (&mut across.word, Item::Progress)
            }
            Small::Vtx | Small::AlreadyHave => {
                let Some(across) = &mut flow.across else { return true };
                match small {
                    Small::Vtx => (&mut across.vtx, Item::Vtx),
                    _ => (&mut across.answer, Item::AlreadyHave),
                }
            }
            Small::Receipt => {
                flow.inc.receipt_written(serial);
                self.counters.receipts += 1;
                out.carried.push(Carried { flow: name, item: Item::Receipt, serial });
                return true;
            }
        };
        if sure.is_copy() {
            if !out.budget.spend_copy(now, octets) {
                // No budget: this copy is not sent, and no further one.
                out.w.truncate(before);
                sure.due = false;
                return true;
            }
            self.counters.control_copies += 1;
        }
        let sends = if small == Small::Offer { 1 } else { sends_max(&self.path) };
        sure.wrote(now, serial, &self.path, sends);
        if small == Small::Offer {
            self.counters.offers += 1;
        }
        out.carried.push(Carried { flow: name, item, serial });
        true
    }

    /// Writes the next chunk of data. `false` if there is none or no room.
    fn fill_chunk(&mut self, now: Instant, class: Class, out: &mut Datagram<'_, '_>) -> bool {
        let may_bulk = class == Class::Bulk && !self.bulk.is_empty();
        let micro_turn = !self.micro.is_empty() && (!may_bulk || self.micro_run < MICRO_RUN_MAX);
        if !micro_turn && !may_bulk {
            return false;
        }
        let ring = if micro_turn { &mut self.micro } else { &mut self.bulk };
        let Some(name) = ring.current() else { return false };
        let Some(flow) = self.flows.get_mut(&name) else { return false };
        if !micro_turn && flow.deficit <= 0 {
            flow.deficit += QUANTUM;
        }
        let Some(octets) = self.write_data(now, name, micro_turn, out) else { return false };
        if micro_turn {
            self.micro.advance();
            let run = if self.bulk.is_empty() { 0 } else { self.micro_run + octets };
            // While the lane takes no bulk, micro accumulates at most one run of debt.
            self.micro_run = run.min(2 * MICRO_RUN_MAX);
        } else {
            self.micro_run = self.micro_run.saturating_sub(octets);
            if let Some(flow) = self.flows.get_mut(&name) {
                flow.deficit -= octets as i64;
                if flow.deficit <= 0 {
                    self.bulk.advance();
                }
            }
        }
        self.offer_waiting(name);
        self.settle(name);
        self.wake_writer(now, name);
        true
    }

    /// Writes one data frame of a flow, with the offer of the block it begins. Returns its payload bytes (zero if a copy was
    /// dropped for lack of budget), or `None` if there is no room.
    fn write_data(&mut self, now: Instant, name: FlowName, micro: bool, out: &mut Datagram<'_, '_>) -> Option<u64> {
        let flow = self.flows.get_mut(&name)?;
        let Some(stretch) = flow.out.choose() else { return Some(0) };
        let before = out.w.len();
        let known = flow.out.stretches_known.at(stretch.start).filter(|_| stretch.kind == Kind::First);
        let known = known.filter(|(len, _)| stretch.start + len <= stretch.end);
        let longest = match (stretch.kind, known) {
            (_, Some((len, _))) => len,
            (Kind::First, None) => flow.out.stretches_known.next_heard(stretch.start, stretch.end) - stretch.start,
            _ => stretch.end - stretch.start,
        };
        let head = 1 + number_len(name.number << 1) + number_len(stretch.start);
        if stretch.kind == Kind::First {
            let after_offer = out.w.room().saturating_sub(OFFER_MAX + head + 2) as u64;
            if let Some(block) = flow.out.new_block(now, &self.path, longest.min(after_offer)) {
                let (number, start, length, micro) = (block.number, block.start, block.length, block.micro);
                let offer =
                    Frame::Offer { flow: name, block: number, start, length, micro, vtx: false, parcels: false };
                if after_offer < longest.min(CHUNK_MIN as u64) || offer.emit(out.w).is_err() {
                    out.w.truncate(before);
                    return None;
                }
                flow.out.block_opened(block);
                self.counters.offers += 1;
            }
        }
        if let Some(known) = known {
            return self.write_digest(now, name, (before, stretch), known, out);
        }
        let room = out.w.room().saturating_sub(head);
        // What fills the datagram may be left open; its length follows it.
        let opens = !micro && stretch.kind != Kind::Copy && out.open.is_some() && flow.may_be_open();
        let opens = opens && room as u64 > OPEN_MIN + OPEN_LEN_LEN as u64 && longest >= (room - OPEN_LEN_LEN) as u64;
        let room = if opens { room - OPEN_LEN_LEN } else { room };
        if (room as u64) < longest.min(CHUNK_MIN as u64) {
            out.w.truncate(before);
            return None;
        }
        let end = stretch.start + longest.min(room as u64);
        let sent = Stretch { end, ..stretch };
        let octets = end - stretch.start;
        if sent.kind == Kind::Copy && !out.budget.spend_copy(now, octets + COPY_OVERHEAD) {
            flow.out.drop_due_copies();
            out.w.truncate(before);
            return Some(0);
        }
        write_chunk(flow, name, sent, opens, out.w)?;
        if let Some(open) = out.open.as_deref_mut().filter(|_| opens) {
            *open = octets as usize;
        }
        self.serial += 1;
        let sends = if micro { sends_max(&self.path) } else { 1 };
        flow.out.wrote(now, sent, self.serial, &self.path, sends);
        match sent.kind {
            Kind::First => {
                self.counters.first_octets += octets;
                out.budget.earn(octets, micro);
                self.forget_digests(name, end);
            }
            Kind::Repair => {
                self.counters.repair_octets += octets;
                out.budget.charge(octets);
            }
            Kind::Again => {
                self.counters.repair_octets += octets;
                self.counters.vtx_octets += octets;
            }
            Kind::Copy => self.counters.copy_octets += octets,
        }
        let item = match sent.kind {
            Kind::Again => Item::Again { offset: sent.start },
            _ => Item::Data { offset: sent.start, len: octets as u32 },
        };
        out.carried.push(Carried { flow: name, item, serial: self.serial });
        Some(octets)
    }
}

impl Hop {
    /// Writes the digest of bytes that the peer overheard, instead of the bytes. `before` is where the datagram is cut if there is no room.
    fn write_digest(
        &mut self,
        now: Instant,
        name: FlowName,
        (before, stretch): (usize, Stretch),
        (len, digest): (u64, Digest),
        out: &mut Datagram<'_, '_>,
    ) -> Option<u64> {
        let flow = self.flows.get_mut(&name)?;
        let (offset, start) = (stretch.start, out.w.len());
        if (Frame::DataByDigest { flow: name, offset, len, digest }).emit(out.w).is_err() {
            out.w.truncate(before);
            return None;
        }
        let octets = (out.w.len() - start) as u64;
        self.serial += 1;
        let sent = Stretch { end: offset + len, ..stretch };
        flow.out.wrote(now, sent, self.serial, &self.path, 1);
        self.counters.by_digest_octets += len;
        out.carried.push(Carried { flow: name, item: Item::Data { offset, len: len as u32 }, serial: self.serial });
        self.forget_digests(name, sent.end);
        // It costs the medium what the frame takes.
        Some(octets)
    }
}

/// Appends the data frame: to the datagram's end if it fills it (give or take the length field), else with a length.
fn write_chunk(flow: &Flow, name: FlowName, sent: Stretch, opens: bool, w: &mut Writer<'_>) -> Option<()> {
    let (front, back) = flow.out.bytes(sent);
    let len = (sent.end - sent.start) as usize;
    let head = 1 + number_len(name.number << 1) + number_len(sent.start);
    if opens || head + number_len(len as u64) + len > w.room() {
        emit_data_to_end(w, name, sent.start).ok()?;
        w.put(front).ok()?;
        return w.put(back).ok();
    }
    if back.is_empty() {
        return Frame::Data { flow: name, offset: sent.start, bytes: front }.emit(w).ok();
    }
    // The stretch wraps around the ring's end; one datagram of bytes is copied once more.
    let joined = [front, back].concat();
    Frame::Data { flow: name, offset: sent.start, bytes: &joined }.emit(w).ok()
}

fn number_len(n: u64) -> usize {
    varint_len(n).unwrap_or(8)
}

fn is_due(flow: &Flow, small: Small) -> bool {
    let (open, ending) = (flow.state == State::Open, flow.state == State::Ending);
    let last = |word| flow.state == State::Done && flow.last_word == word;
    match small {
        Small::Open => flow.state == State::Opening && flow.open.due,
        Small::Answer => (open || ending || last(LastWord::Answer)) && flow.answer.due,
        Small::Receipt => (open || flow.state == State::Opening || last(LastWord::Receipt)) && flow.inc.receipt_now,
        Small::Reset => (ending || last(LastWord::Reset)) && flow.reset.due,
        Small::Finish => open && flow.out.finish_due(),
        Small::Offer => (open || ending) && flow.out.query.due,
        Small::Progress => open && flow.across.as_ref().is_some_and(|across| across.word.due),
        Small::Vtx => open && flow.across.as_ref().is_some_and(|across| across.vtx.due),
        Small::AlreadyHave => open && flow.across.as_ref().is_some_and(|across| across.answer.due),
    }
}

fn frame_for(flow: &Flow, name: FlowName, small: Small, now: Instant) -> Frame<'static> {
    match small {
        Small::Open => {
            let (source, target, credit) = (flow.source, flow.target, flow.inc.credit());
            Frame::Open(Open { flow: name, source, target, credit, passage: flow.passage })
        }
        Small::Answer => {
            let (refusal, credit, edge) = (flow.refusal, flow.inc.credit(), flow.answered);
            Frame::Answer { flow: name, refusal, credit, edge }
        }
        Small::Reset => {
            let after = (flow.state == State::Ending).then(|| flow.out.reach());
            Frame::Reset { flow: name, reason: flow.reason, after }
        }
        Small::Finish => Frame::Finish { flow: name, length: flow.out.fin.unwrap_or(0) },
        Small::Progress => {
            let said = flow.across.as_ref().map(|across| (across.ours, across.our_word));
            let (reach, word) = said.unwrap_or_default();
            Frame::Progress { flow: name, reach, word }
        }
        Small::Vtx => {
            let (start, end) = flow.across.as_ref().and_then(|across| across.asked).unwrap_or_default();
            let (block, length) = (flow.out.asked_block(now).number, Some(end - start));
            Frame::Offer { flow: name, block, start, length, micro: false, vtx: true, parcels: false }
        }
        Small::AlreadyHave => {
            let (start, here) = flow.across.as_ref().map(|across| across.here.clone()).unwrap_or_default();
            let ranges = Ranges(here.into_iter().take(RANGES_WHOLE).collect());
            let state = ReceiptState::AlreadyHave;
            Frame::Receipt { flow: name, state, cumulative: start, credit: flow.inc.credit(), ranges }
        }
        Small::Offer | Small::Receipt => {
            let block = flow.out.asked_block(now);
            let (number, start, length, micro) = (block.number, block.start, block.length, block.micro);
            Frame::Offer { flow: name, block: number, start, length, micro, vtx: false, parcels: false }
        }
    }
}

/// Appends a receipt with as many ranges as fit, highest first, and no more than `most`. A list shorter than [`RANGES_WHOLE`] is whole.
fn write_receipt(flow: &Flow, name: FlowName, credit: u64, most: usize, w: &mut Writer<'_>) -> bool {
    let held = flow.inc.held();
    let count = ranges_fitting(held, w.room().saturating_sub(RECEIPT_FIXED_MAX)).min(most);
    if count < held.count().min(RANGES_WHOLE) {
        return false;
    }
    let state = if flow.inc.is_complete() {
        ReceiptState::Complete
    } else if flow.inc.is_stalled() {
        ReceiptState::Wait
    } else {
        ReceiptState::Accept
    };
    let ranges = Ranges(held.descending().take(count).map(|(s, e)| (s, e - 1)).collect());
    let cumulative = flow.inc.cumulative();
    Frame::Receipt { flow: name, state, cumulative, credit, ranges }.emit(w).is_ok()
}

/// How many of the highest ranges fit in `room`, each as two numbers.
fn ranges_fitting(held: &RangeSet, room: usize) -> usize {
    let (mut octets, mut floor) = (0, None);
    let fits = |&(start, end): &(u64, u64)| {
        octets += number_len(floor.map_or(end - 1, |above| above - end)) + number_len(end - 1 - start);
        floor = Some(start);
        octets <= room
    };
    held.descending().take_while(fits).count()
}

const _: () = assert!(QUANTUM >= 9_000 && FLOOR >= 4_096);
