//! Programs that send UDP datagrams of their own: at a constant rate, without end, a fixed number at a time, or one for
//! an answer.
//!
//! A datagram begins with the number of its exchange and its own; what follows is the exchange's content from the place
//! that its number gives, so that the receiver knows every byte.

use crate::host::HostNode;
use crate::node::{Moment, Outgoing};
use crate::traffic::{Datagrams, Flow, FlowEnd, FlowIndex, Question, Work};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, SocketAddrV4};
use wavelane_base::{Ecn, Instant, Seed, Span};
use wavelane_run::schedule::Spurt;
use wavelane_wire::datagram::UDP4_OVERHEAD;
use wavelane_wire::ip::Udp4;

/// Where receivers of datagrams listen: the discard service (RFC 863).
pub(crate) const DATAGRAM_PORT: u16 = 9;
/// Bytes of an exchange's and a datagram's number, and of an answer.
const HEAD: usize = 16;
/// After this the sender of a fixed window retransmits a datagram.
const PATIENCE: Span = Span::from_secs(1);
/// Numbers remembered beyond the first one missing.
const SEEN_BOUND: usize = 4_096;

/// What both ends of an exchange of datagrams remember.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// The number of the next datagram.
    next: u64,
    /// When the datagrams of a fixed window were sent last.
    waiting: BTreeMap<u64, Instant>,
    seen: Arrived,
    spurt: Option<Spurt>,
}

/// Which numbers have arrived.
#[derive(Debug, Default)]
struct Arrived {
    below: u64,
    above: BTreeSet<u64>,
}

impl Arrived {
    /// Whether `number` comes for the first time, as far as is remembered.
    fn is_new(&mut self, number: u64) -> bool {
        if number < self.below || !self.above.insert(number) {
            return false;
        }
        while self.above.len() > SEEN_BOUND || self.above.first() == Some(&self.below) {
            self.below = self.above.pop_first().map_or(self.below, |first| first + 1);
        }
        true
    }
}

/// Lets the sender act. Returns when it wants to act again.
pub(crate) fn tick(host: &mut HostNode, moment: &mut Moment<'_>, index: usize) -> Option<Instant> {
    let now = moment.now;
    let flow = &mut moment.flows[index];
    let Work::Datagrams(kind) = flow.spec.work else { return None };
    let start = *flow.log.connected.get_or_insert(now);
    flow.log.accepted.get_or_insert(now);
    if flow.log.end.is_some() {
        return None;
    }
    if let Some(stop) = flow.spec.stop.filter(|stop| *stop <= now) {
        flow.log.questions_end.get_or_insert(stop);
        flow.finish(now, FlowEnd::Stopped);
        return None;
    }
    let stop = flow.spec.stop;
    let next = match kind {
        Datagrams::Cbr { every, .. } | Datagrams::Ping { every, .. } => {
            while start + every.times(moment.flows[index].datagrams.next) <= now {
                let flow = &mut moment.flows[index];
                if let Datagrams::Ping { .. } = kind {
                    let due = start + every.times(flow.datagrams.next);
                    flow.log.questions.push(Question { due, answered: None });
                }
                send_next(host, moment, index);
            }
            Some(start + every.times(moment.flows[index].datagrams.next))
        }
        Datagrams::Saturate { .. } => None,
        Datagrams::Spurts { every, on, off, timed, .. } => Some(speak(host, moment, index, (every, on, off, timed))),
        Datagrams::Window { packets, .. } => {
            while moment.flows[index].datagrams.waiting.len() < packets as usize {
                send_next(host, moment, index);
            }
            let overdue = |(number, sent): (&u64, &Instant)| (*sent + PATIENCE <= now).then_some(*number);
            let again: Vec<u64> = moment.flows[index].datagrams.waiting.iter().filter_map(overdue).collect();
            for number in again {
                send(host, moment, index, number);
            }
            moment.flows[index].datagrams.waiting.values().min().map(|sent| *sent + PATIENCE)
        }
    };
    [next, stop].into_iter().flatten().min()
}

/// Sends what is due of a source that speaks in spurts. Returns when it wants to act again.
fn speak(
    host: &mut HostNode,
    moment: &mut Moment<'_>,
    index: usize,
    (every, on, off, timed): (Span, Span, Span, bool),
) -> Instant {
    let (now, flow) = (moment.now, &mut moment.flows[index]);
    let begin = || Spurt::new(now, Seed(flow.content.0).chance("spurts"), every, (on, off));
    let mut spurt = flow.datagrams.spurt.take().unwrap_or_else(begin);
    while spurt.due() <= now {
        if timed {
            moment.flows[index].log.questions.push(Question { due: spurt.due(), answered: None });
        }
        send_next(host, moment, index);
        spurt.send();
    }
    let next = spurt.due();
    moment.flows[index].datagrams.spurt = Some(spurt);
    next
}

/// Sends the exchange's next datagram.
pub(crate) fn send_next(host: &mut HostNode, moment: &mut Moment<'_>, index: usize) {
    let state = &mut moment.flows[index].datagrams;
    state.next += 1;
    let number = state.next - 1;
    send(host, moment, index, number);
}

fn send(host: &mut HostNode, moment: &mut Moment<'_>, index: usize, number: u64) {
    let flow = &mut moment.flows[index];
    let Work::Datagrams(kind) = flow.spec.work else { return };
    if let Datagrams::Window { .. } = kind {
        flow.datagrams.waiting.insert(number, moment.now);
    }
    let mut payload = moment.spare.pop().unwrap_or_default();
    payload.clear();
    payload.resize(kind.size(), 0);
    head(&mut payload, index, number);
    flow.content.fill(body_start(number, kind.size()), &mut payload[HEAD..]);
    let (source, target) = (flow.spec.source, flow.spec.target);
    emit(host, moment, source, target, &payload);
    moment.spare.push(payload);
}

fn head(payload: &mut [u8], index: usize, number: u64) {
    payload[..8].copy_from_slice(&(index as u64).to_be_bytes());
    payload[8..HEAD].copy_from_slice(&number.to_be_bytes());
}

fn body_start(number: u64, size: usize) -> u64 {
    number.wrapping_mul(size as u64)
}

fn emit(host: &mut HostNode, moment: &mut Moment<'_>, source: SocketAddr, target: SocketAddr, payload: &[u8]) {
    let (SocketAddr::V4(source), SocketAddr::V4(target)) = (source, target) else { return };
    let Some(port) = host.port_towards(SocketAddr::V4(target)) else { return host.drop_packet("no_route") };
    let mut packet = moment.spare.pop().unwrap_or_default();
    packet.resize(UDP4_OVERHEAD + payload.len(), 0);
    match (Udp4 { source, target, ecn: Ecn::NotEct, payload }).emit(&mut packet) {
        Ok(_) => moment.out.push(Outgoing::new(port, packet)),
        Err(_) => host.drop_packet("too_long"),
    }
}

/// A UDP datagram has come to its host.
pub(crate) fn receive(host: &mut HostNode, moment: &mut Moment<'_>, udp: &Udp4<'_>) {
    let Some((index, number)) = numbers(udp.payload).filter(|(index, _)| *index < moment.flows.len()) else {
        return host.drop_packet("not_ours");
    };
    let flow = &mut moment.flows[index];
    let Work::Datagrams(kind) = flow.spec.work else { return host.drop_packet("not_ours") };
    if udp.target.port() == DATAGRAM_PORT {
        arrive(moment.now, flow, kind, number, udp.payload);
        match kind {
            Datagrams::Cbr { .. } | Datagrams::Saturate { .. } => {}
            Datagrams::Spurts { timed, .. } => {
                let question = flow.log.questions.get_mut(number as usize).filter(|_| timed);
                if let Some(question) = question {
                    question.answered.get_or_insert(moment.now);
                }
            }
            Datagrams::Window { .. } => {
                let mut answer = [0; HEAD];
                head(&mut answer, index, number);
                reply(host, moment, udp.target, udp.source, &answer);
            }
            Datagrams::Ping { .. } => reply(host, moment, udp.target, udp.source, udp.payload),
        }
        return;
    }
    match kind {
        Datagrams::Ping { .. } => {
            if let Some(question) = flow.log.questions.get_mut(number as usize) {
                question.answered.get_or_insert(moment.now);
            }
        }
        Datagrams::Window { .. } => {
            if flow.datagrams.waiting.remove(&number).is_some() && flow.log.end.is_none() {
                send_next(host, moment, index);
            }
        }
        _ => host.drop_packet("not_ours"),
    }
}

fn reply(host: &mut HostNode, moment: &mut Moment<'_>, from: SocketAddrV4, to: SocketAddrV4, payload: &[u8]) {
    emit(host, moment, SocketAddr::V4(from), SocketAddr::V4(to), payload);
}

fn numbers(payload: &[u8]) -> Option<(usize, u64)> {
    let number = |bytes: &[u8]| bytes.first_chunk().map(|chunk| u64::from_be_bytes(*chunk));
    Some((usize::try_from(number(payload)?).ok()?, number(payload.get(8..)?)?))
}

fn arrive(now: Instant, flow: &mut Flow, kind: Datagrams, number: u64, payload: &[u8]) {
    if payload.len() != kind.size() {
        flow.log.damage.get_or_insert(flow.log.octets);
        return;
    }
    if flow.datagrams.seen.is_new(number) {
        let start = body_start(number, kind.size());
        let damaged = flow.content.first_difference(start, &payload[HEAD..]).is_some();
        flow.log.note_datagram(now, payload.len() as u64, damaged);
    }
}

/// Whether an exchange is one of datagrams.
pub(crate) fn is_one(flows: &[Flow], index: FlowIndex) -> bool {
    matches!(flows[index.0].spec.work, Work::Datagrams(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_new_once_and_memory_is_bounded() {
        let mut seen = Arrived::default();
        assert!(seen.is_new(1) && seen.is_new(0) && !seen.is_new(1) && !seen.is_new(0));
        assert_eq!((seen.below, seen.above.len()), (2, 0));
        for number in 0..3 * SEEN_BOUND as u64 {
            assert!(seen.is_new(2 * number + 3));
            assert!(seen.above.len() <= SEEN_BOUND);
        }
        assert!(!seen.is_new(3), "what is forgotten counts as seen");
    }
}
