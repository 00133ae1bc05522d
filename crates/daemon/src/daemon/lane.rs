//! Datagrams between the lanes' sockets and the gateway.

use super::Daemon;
use super::time::{QUESTIONS_MAX, TimeQuestion};
use crate::shaper::reflector::{self, QUESTION_LEN};
use crate::system::medium::Port;
use std::time::Duration;
use wavelane_base::{Class, FrameMeta, Machine, PortId, Span, Transmit};
use wavelane_host::poller::Ready;
use wavelane_host::udp::Destination;
use wavelane_measure::pcapng::PortDirection;

/// Reads of a lane's socket per round, and bytes after which a round has read or sent enough: acknowledgements are due
/// then, and what was read is still in the processor's cache.
const READS_PER_ROUND: usize = 8;
const OCTETS_PER_ROUND: usize = 256 << 10;

/// One socket: a port of the gateway, by which lanes leave and come.
pub(super) struct LanePort {
    /// `None` while its device is not there, or if no lane has it.
    pub(super) socket: Option<Port>,
    readable: bool,
    writable: bool,
    /// Whether the gateway was told that bulk has to wait.
    holds_bulk: bool,
    /// What did not fit the socket buffer.
    stalled: Option<(Transmit, Vec<u8>)>,
}

impl LanePort {
    pub(super) fn new(socket: Option<Port>) -> Self {
        let (there, room) = (socket.is_some(), socket.as_ref().is_some_and(|socket| socket.has_room()));
        Self { socket, readable: there, writable: room, holds_bulk: false, stalled: None }
    }
    /// Continues with another socket, or none; what did not fit the old socket is lost. What the gateway was told stands until it is told
    /// otherwise.
    pub(super) fn replace(&mut self, socket: Option<Port>) {
        *self = Self { holds_bulk: self.holds_bulk, ..Self::new(socket) };
    }
    /// Whether there is a socket that takes nothing now.
    pub(super) fn is_full(&self) -> bool {
        self.socket.is_some() && !self.writable
    }
    /// The socket is tried again even if it was full.
    pub(super) fn try_again(&mut self) {
        let room = self.socket.as_ref().is_some_and(|socket| socket.has_room());
        self.readable = self.socket.is_some();
        self.writable = room;
    }
}

/// The code point by which a radio knows the access category of a datagram (RFC 8325, section 4.3): voice, video, best effort, and the
/// priority of best effort of which the driver may be told to ask for no acknowledgement.
fn code_point(transmit: &Transmit) -> u8 {
    const EF: u8 = 46;
    const AF41: u8 = 34;
    const AF21: u8 = 18;
    match transmit.class {
        // It is no radio's.
        _ if !transmit.txop => 0,
        Class::Control => EF,
        Class::Micro => AF41,
        Class::Bulk if transmit.no_ack => AF21,
        Class::Bulk => 0,
    }
}

/// What became of a port's round.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Round {
    Nothing,
    Some,
    /// There may be more at once.
    More,
}

impl Daemon {
    pub(super) fn lane_ready(&mut self, port: usize, ready: Ready) {
        if let Some(lane) = self.lanes.get_mut(port) {
            lane.readable |= ready.readable;
            if let (true, Some(socket)) = (ready.writable, &mut lane.socket) {
                socket.go_on();
            }
            self.note_room(port, ready.writable);
        }
    }
    /// A port that was full takes datagrams again, if `may` and its medium agree.
    fn note_room(&mut self, port: usize, may: bool) {
        let lane = &mut self.lanes[port];
        if may && !lane.writable && lane.socket.as_ref().is_some_and(|socket| socket.has_room()) {
            lane.writable = true;
            self.gateway.set_port_room(self.now, PortId(port as u16), true);
        }
    }
    /// Tells the gateway whether a radio takes bulk; while it does not again and again, for lanes open anew meanwhile.
    fn note_bulk_room(&mut self, port: usize) {
        let lane = &mut self.lanes[port];
        let Some(holds) = lane.socket.as_ref().map(|socket| !socket.has_bulk_room()) else { return };
        if core::mem::replace(&mut lane.holds_bulk, holds) || holds {
            self.gateway.set_bulk_room(PortId(port as u16), !holds);
        }
    }
    /// After how long a port has something to do by itself.
    pub(super) fn lanes_due_in(&self) -> Option<Duration> {
        let due = self.lanes.iter().filter_map(|lane| lane.socket.as_ref()?.due_in()).min();
        due.map(|span| Duration::from_nanos(span.as_nanos()))
    }
    /// Has the ports do what time makes due, and looks after those whose device ended.
    pub(super) fn tend_lanes(&mut self) {
        for port in 0..self.lanes.len() {
            let Some(socket) = &mut self.lanes[port].socket else { continue };
            let due = socket.due_in() == Some(Span::ZERO);
            if due {
                socket.go_on();
                self.lanes[port].readable = true;
            }
            let Some(socket) = &self.lanes[port].socket else { continue };
            if socket.is_gone() {
                self.devices.look_soon(self.now);
            }
            self.note_room(port, due);
            self.note_bulk_room(port);
        }
    }
    /// Reads a round's worth of datagrams from every port. Returns whether there may be more.
    pub(super) fn receive(&mut self) -> bool {
        let ports: Vec<bool> = (0..self.lanes.len()).map(|port| self.receive_at(port)).collect();
        ports.contains(&true)
    }
    fn receive_at(&mut self, port: usize) -> bool {
        let mut capture = self.line_capture.as_mut().filter(|_| self.devices.is_line(port));
        let mut ended = None;
        let lane = &mut self.lanes[port];
        let Some(socket) = lane.socket.as_mut().filter(|_| lane.readable) else { return false };
        let (mut octets, mut questions, mut unasked) = (0, Vec::new(), 0);
        for _ in 0..READS_PER_ROUND {
            let (clock, gateway) = (&self.clock, &mut self.gateway);
            let mut read_at = None;
            let got = socket.receive(&mut |d| {
                // The clock is read once per call, and after it: an arrival time ahead of `now`, or before the true
                // one, would pass for delay on the link.
                let now = *read_at.get_or_insert_with(|| clock.now());
                let rx_time = now - d.waited;
                let meta = FrameMeta {
                    rx_time,
                    ecn: d.ecn,
                    segment: d.segment,
                    from: Some(d.from),
                    at: d.at,
                    ..FrameMeta::default()
                };
                octets += d.bytes.len();
                if reflector::is_question(d.bytes) && d.segment.is_none_or(|size| usize::from(size) == QUESTION_LEN) {
                    let all = d.bytes.as_chunks().0.iter();
                    let room = QUESTIONS_MAX - questions.len();
                    unasked += all.len().saturating_sub(room);
                    let all = all.take(room);
                    questions.extend(all.map(|octets| TimeQuestion {
                        from: d.from,
                        at: d.at,
                        came: rx_time,
                        octets: *octets,
                    }));
                    return;
                }
                let noted = capture.as_mut().and_then(|to| to.note(PortDirection::In, d.bytes, d.segment));
                ended = ended.take().or(noted);
                gateway.handle_frame(now, PortId(port as u16), d.bytes, meta);
            });
            self.now = read_at.unwrap_or(self.now);
            if socket.is_gone() {
                self.devices.look_soon(self.now);
            }
            // An error is an ICMP message about an earlier datagram; the next call goes on.
            if matches!(got, Ok(0)) {
                lane.readable = false;
                break;
            }
            if octets >= OCTETS_PER_ROUND {
                break;
            }
        }
        ended.iter().for_each(|why| self.say(why));
        self.counters.add("dropped_time_questions", unasked as u64);
        self.tell_time(port, questions);
        true
    }
    /// Sends a round's worth of what may leave by every port. Returns whether there may be more.
    pub(super) fn transmit(&mut self) -> bool {
        let rounds: Vec<Round> = (0..self.lanes.len()).map(|port| self.transmit_by(port)).collect();
        // What left by one port may leave room for another's.
        rounds.contains(&Round::More) || rounds.len() > 1 && rounds.contains(&Round::Some)
    }
    fn transmit_by(&mut self, port: usize) -> Round {
        let mut octets = 0;
        while self.lanes[port].writable && octets < OCTETS_PER_ROUND {
            let lane = &mut self.lanes[port];
            let Some(socket) = &mut lane.socket else { break };
            let stalled = lane.stalled.take();
            let (transmit, rest): (Transmit, &[u8]) = match &stalled {
                Some((transmit, rest)) => (*transmit, rest),
                None => {
                    // A batch takes long to send; the next one's packets leave that much later.
                    self.now = self.clock.now();
                    let (segments, by) = (socket.segments_max(), PortId(port as u16));
                    match self.gateway.poll_transmit(self.now, by, &mut self.frame, segments) {
                        Some(transmit) => (transmit, &self.frame[..transmit.len]),
                        None => return if octets > 0 { Round::Some } else { Round::Nothing },
                    }
                }
            };
            let Some(to) = transmit.to else {
                self.counters.one("dropped_datagram_unsent");
                continue;
            };
            octets += rest.len();
            let to = Destination { to, from: transmit.from, dscp: code_point(&transmit) };
            let sent = socket.send(rest, transmit.segment_size, to, transmit.ecn);
            self.counters.add("dropped_datagram_too_big", sent.too_big);
            self.counters.add("dropped_datagram_unsent", sent.lost);
            let mut capture = self.line_capture.as_mut().filter(|_| sent.lost == 0 && self.devices.is_line(port));
            let ended =
                capture.as_mut().and_then(|to| to.note(PortDirection::Out, &rest[..sent.done], transmit.segment_size));
            if sent.done < rest.len() {
                lane.stalled = Some((transmit, rest[sent.done..].to_vec()));
            }
            if sent.done < rest.len() || !socket.has_room() {
                lane.writable = false;
                self.gateway.set_port_room(self.now, PortId(port as u16), false);
            }
            ended.iter().for_each(|why| self.say(why));
            self.note_bulk_room(port);
        }
        if self.lanes[port].writable { Round::More } else { Round::Nothing }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Else a lane whose device went while bulk waited would carry none by the next socket.
    #[test]
    fn what_the_gateway_was_told_of_bulk_outlives_a_socket() {
        let mut lane = LanePort::new(None);
        lane.holds_bulk = true;
        lane.replace(None);
        assert!(lane.holds_bulk);
    }
}
