//! UDP datagrams of our own: in spurts or at a constant rate, independent of answers, or so many at a time, each of which is answered.
//!
//! A datagram begins with its number; the rest is derived from it, so that the receiver can verify every byte. Both ends are threads of one
//! process and share its clock.

use crate::LabError;
use crate::content::note_arrival;
use crate::sockets;
use crate::worker::Worker;
use crate::workload::Workload;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use wavelane_base::{Chance, Instant, Span};
use wavelane_host::netns::Netns;
use wavelane_host::realtime;
use wavelane_run::schedule::Spurt;
use wavelane_run::{FlowRaw, Probe};

/// Longest wait, so that a stop request is noticed in time.
const GLANCE: Span = Span::from_millis(20);
/// Bytes of a datagram's number, and of zeros where the simulator has the flow's number.
const HEAD: usize = 16;
/// After this a datagram without its answer is sent again.
const PATIENCE: Span = Span::from_secs(1);
/// Largest datagram of a scenario plus one byte, to detect a longer one.
const LARGEST: usize = 2_201;

/// Datagrams received by a listener: the first arrival of each number, in order of arrival.
#[derive(Default)]
pub(crate) struct Heard {
    at: BTreeMap<u64, Instant>,
    order: Vec<(Instant, u64)>,
    damaged: u64,
}

/// Shared by a listener and the sender of its flow.
pub(crate) type Hearing = Arc<Mutex<Heard>>;

/// When datagrams leave.
pub(crate) enum Pace {
    /// So far apart in spurts; the mean lengths of a spurt and of a silence.
    Spurts(Span, (Span, Span), Chance),
    /// So far apart.
    Every(Span),
    /// So many are in flight at a time.
    Window(usize),
}

/// Contents and schedule of the datagrams.
pub(crate) struct Talk {
    pub(crate) pace: Pace,
    /// Bytes of a datagram, from 16 to 2200.
    pub(crate) size: usize,
    /// Each datagram is timed.
    pub(crate) timed: bool,
}

/// Writes the datagram with that number.
fn fill(datagram: &mut [u8], number: u64) {
    let (head, body) = datagram.split_at_mut(HEAD);
    head[..8].fill(0);
    head[8..].copy_from_slice(&number.to_be_bytes());
    for (place, byte) in body.iter_mut().enumerate() {
        *byte = (number.wrapping_mul(31).wrapping_add(place as u64 * 7) >> 1) as u8;
    }
}

/// The number of a datagram of `size` bytes, if every byte is as sent.
fn number_of(datagram: &[u8], size: usize) -> Option<u64> {
    let number = u64::from_be_bytes(datagram.get(8..HEAD)?.try_into().ok()?);
    let mut sent = vec![0; size];
    fill(&mut sent, number);
    (sent == datagram).then_some(number)
}

/// Starts the receiving side of a flow whose datagrams have `size` bytes, at `address` inside `ns`. It sends the head of each back if it
/// `answers`.
pub(crate) fn listener(
    ns: &Netns,
    address: SocketAddr,
    size: usize,
    answers: bool,
) -> Result<(Worker, Hearing), LabError> {
    let why = || LabError::io(format!("cannot listen on {address} in node {}", ns.name()));
    let socket = ns.run(move || UdpSocket::bind(address))?.map_err(why())?;
    socket.set_nonblocking(true).map_err(why())?;
    let heard = Hearing::default();
    let theirs = Arc::clone(&heard);
    let worker = Worker::start("datagrams", move |stop| {
        // Without real-time priority, other load on a busy machine is measured with the link, and the flow's note says so.
        let _ = realtime::prefer_this_thread();
        let mut buffer = [0; LARGEST];
        while !stop.load(Ordering::Acquire) {
            if !matches!(realtime::wait(&[socket.as_fd()], realtime::now() + GLANCE), Ok(true)) {
                continue;
            }
            while let Ok((len, from)) = socket.recv_from(&mut buffer) {
                let now = realtime::now();
                if answers && len == size {
                    // An answer that is lost is asked for again.
                    let _ = socket.send_to(&buffer[..HEAD], from);
                }
                let mut heard = theirs.lock().unwrap_or_else(PoisonError::into_inner);
                match number_of(&buffer[..len], size) {
                    Some(number) if !heard.at.contains_key(&number) => {
                        heard.at.insert(number, now);
                        heard.order.push((now, len as u64));
                    }
                    Some(_) => {}
                    None => heard.damaged += 1,
                }
            }
        }
    });
    Ok((worker.map_err(LabError::io("cannot start a thread to receive datagrams"))?, heard))
}

/// The sending side.
struct Sender {
    socket: UdpSocket,
    datagram: Vec<u8>,
    /// Of the next datagram.
    number: u64,
    /// Those that the kernel refused.
    unsent: u64,
}

impl Sender {
    fn send(&mut self, number: u64) {
        fill(&mut self.datagram, number);
        // A datagram that the kernel refuses is lost, but the next may not be.
        self.unsent += u64::from(self.socket.send(&self.datagram).is_err());
    }

    fn send_next(&mut self) {
        self.send(self.number);
        self.number += 1;
    }

    /// Keeps `packets` datagrams in flight until the flow's stop; each is sent again until it is answered.
    fn keep_in_flight(&mut self, workload: &Workload, packets: usize) -> std::io::Result<()> {
        let mut waiting: BTreeMap<u64, Instant> = BTreeMap::new();
        let mut answer = [0; HEAD];
        loop {
            let now = realtime::now();
            if now >= workload.stop || workload.cancelled() {
                return Ok(());
            }
            while waiting.len() < packets {
                waiting.insert(self.number, now);
                self.send_next();
            }
            let overdue: Vec<u64> =
                waiting.iter().filter(|(_, sent)| **sent + PATIENCE <= now).map(|(number, _)| *number).collect();
            for number in overdue {
                self.send(number);
                waiting.insert(number, now);
            }
            realtime::wait(&[self.socket.as_fd()], workload.stop.min(now + GLANCE))?;
            while let Ok(HEAD) = self.socket.recv(&mut answer) {
                waiting.remove(&u64::from_be_bytes(*answer.last_chunk().expect("a head ends with the number")));
            }
        }
    }
}

/// Waits until a datagram is due; false if the flow is over before. A sender that cannot keep up has datagrams due long after their time:
/// the clock ends it then, not its schedule.
fn goes_on(due: Instant, stop: Instant, cancelled: impl Fn() -> bool) -> bool {
    due < stop && sockets::rest_until(due, &cancelled) && !cancelled() && realtime::now() < stop
}

/// Sends datagrams when due until the flow's stop. The calling thread must be inside the client's namespace.
pub(crate) fn run(
    workload: &Workload,
    app: &'static str,
    talk: Talk,
    heard: &Hearing,
) -> Result<(FlowRaw, Option<String>), LabError> {
    let preferred = realtime::prefer_this_thread().is_ok();
    let broken = || LabError::io(format!("flow {}: cannot open a UDP socket", workload.name));
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).map_err(broken())?;
    socket.connect(workload.server).map_err(broken())?;
    socket.set_nonblocking(true).map_err(broken())?;
    let mut sender = Sender { socket, datagram: vec![0; talk.size], number: 0, unsent: 0 };
    let mut sent: Vec<Instant> = Vec::new();
    match talk.pace {
        Pace::Spurts(every, spans, dice) => {
            let mut spurt = Spurt::new(workload.start, dice, every, spans);
            while goes_on(spurt.due(), workload.stop, || workload.cancelled()) {
                sender.send_next();
                if talk.timed {
                    sent.push(spurt.due());
                }
                spurt.send();
            }
        }
        Pace::Every(every) => {
            let mut due = workload.start;
            while goes_on(due, workload.stop, || workload.cancelled()) {
                sender.send_next();
                due += every;
            }
        }
        Pace::Window(packets) => {
            sockets::rest_until(workload.start, || workload.cancelled());
            sender.keep_in_flight(workload, packets).map_err(broken())?;
        }
    }
    sockets::rest_until(workload.stop, || workload.cancelled());
    let Sender { number, unsent, .. } = sender;
    let heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
    let mut raw = workload.raw(app, workload.since_epoch(workload.start));
    for (at, octets) in &heard.order {
        note_arrival(&mut raw.arrivals, workload.since_epoch(*at), *octets);
        raw.octets += octets;
    }
    raw.first_byte_ns = heard.order.first().map(|(at, _)| workload.since_epoch(*at));
    raw.last_byte_ns = heard.order.last().map(|(at, _)| workload.since_epoch(*at));
    raw.completed = heard.damaged == 0;
    let probe = |(number, due): (u64, &Instant)| Probe {
        sent_ns: workload.since_epoch(*due),
        rtt_ns: heard.at.get(&number).map(|at| at.since(*due).as_nanos()),
    };
    raw.probes = (0u64..).zip(&sent).map(probe).collect();
    let priority = if preferred { "at" } else { "without" };
    let note = format!(
        "flow {}: {priority} real-time priority, {unsent} of {number} datagrams refused by the kernel, {} damaged",
        workload.name, heard.damaged
    );
    Ok((raw, Some(note)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_that_is_late_ends_at_the_stop_or_when_cancelled() {
        let (due, now, later) = (Instant::ZERO, realtime::now(), realtime::now() + Span::from_secs(3_600));
        assert!(goes_on(due, later, || false), "it catches up");
        assert!(!goes_on(due, now, || false));
        assert!(!goes_on(due, later, || true));
    }

    #[test]
    fn a_datagram_is_known_by_every_byte() {
        for size in [HEAD, 200, LARGEST - 1] {
            let mut datagram = vec![7; size];
            fill(&mut datagram, 300);
            assert_eq!(number_of(&datagram, size), Some(300));
            assert_eq!(number_of(&datagram, size + 1), None);
            datagram[size - 1] ^= 1;
            assert!(size == HEAD || number_of(&datagram, size).is_none(), "a byte of the body was changed");
            datagram[0] = 1;
            assert_eq!(number_of(&datagram, size), None);
        }
        assert_eq!(number_of(&[0; 3], 3), None);
    }
}
