//! Ping: ICMP echo requests on a fixed schedule, open loop, answered by the far node's kernel.

use crate::LabError;
use crate::content::note_arrival;
use crate::sockets;
use crate::workload::Workload;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::fd::AsFd;
use wavelane_base::{Instant, Span};
use wavelane_host::icmp::IcmpSocket;
use wavelane_host::realtime;
use wavelane_run::{FlowRaw, Probe};
use wavelane_wire::ip::{IPV4_HEADER_LEN, checksum};

/// An answer that arrives later than this after the last request is lost (the figure's definition).
const PATIENCE: Span = Span::from_secs(5);
/// Longest wait, so that a stop request is noticed in time.
const GLANCE: Span = Span::from_millis(20);
/// Types of ICMP messages (RFC 792).
const ECHO_REQUEST: u8 = 8;
const ECHO_REPLY: u8 = 0;
/// Bytes before a message's data.
const HEAD: usize = 8;

/// The request with that number; its data distinguishes 2^64 requests, which the 16-bit sequence number cannot.
fn request(id: u16, number: u64, size: usize) -> Vec<u8> {
    let mut message = vec![0; HEAD + size];
    message[0] = ECHO_REQUEST;
    message[4..6].copy_from_slice(&id.to_be_bytes());
    message[6..8].copy_from_slice(&(number as u16).to_be_bytes());
    message[HEAD..HEAD + 8].copy_from_slice(&number.to_be_bytes());
    let sum = checksum(&[&message]);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    message
}

/// The number of our request that this packet answers.
fn answered(packet: &[u8], id: u16) -> Option<u64> {
    let header = usize::from(packet.first()? & 15) * 4;
    let message = packet.get(header.max(IPV4_HEADER_LEN)..)?;
    let of_ours =
        *message.first()? == ECHO_REPLY && message.get(4..6)? == id.to_be_bytes() && checksum(&[message]) == 0;
    of_ours.then_some(())?;
    Some(u64::from_be_bytes(message.get(HEAD..HEAD + 8)?.try_into().ok()?))
}

/// Sends requests until the time is over, then waits for the outstanding answers. The calling thread must be inside the client's namespace.
/// `size`: bytes of a request's data, at least 8.
pub(crate) fn run(
    workload: &Workload,
    every: Span,
    size: usize,
    id: u16,
) -> Result<(FlowRaw, Option<String>), LabError> {
    let cancelled = || workload.cancelled();
    // It alternates between sleeping and sending: with real-time priority, other load on a busy machine is not measured with the link.
    let preferred = realtime::prefer_this_thread().is_ok();
    sockets::rest_until(workload.start, cancelled);
    let mut raw = workload.raw("ping", workload.since_epoch(realtime::now()));
    let IpAddr::V4(to) = workload.server.ip() else {
        return Err(LabError::Topology(format!("flow '{}': the lab pings IPv4 addresses", workload.name)));
    };
    let socket =
        IcmpSocket::open(to).map_err(LabError::io("cannot open a raw ICMP socket; run as root or with sudo"))?;
    let (mut sent, mut answers): (Vec<Instant>, BTreeMap<u64, Instant>) = Default::default();
    let (mut due, mut unsent) = (realtime::now(), 0u64);
    let mut buffer = vec![0; 1 << 16];
    let broken = LabError::io("cannot wait for ICMP messages");
    loop {
        let asking = due < workload.stop;
        let patient = realtime::now() < workload.stop + PATIENCE && answers.len() < sent.len();
        if cancelled() || !asking && !patient {
            break;
        }
        let until = if asking { due } else { workload.stop + PATIENCE };
        if let Err(e) = realtime::wait(&[socket.as_fd()], until.min(realtime::now() + GLANCE)) {
            return Err(broken(e));
        }
        // A message that the network answers with an error is lost, but the next may not be.
        while let Ok(Some(len)) = socket.receive(&mut buffer) {
            let now = realtime::now();
            let Some(number) = answered(&buffer[..len], id).filter(|number| *number < sent.len() as u64) else {
                continue;
            };
            answers.entry(number).or_insert(now);
            note_arrival(&mut raw.arrivals, workload.since_epoch(now), size as u64);
        }
        while due < workload.stop && due <= realtime::now() {
            unsent += u64::from(socket.send(&request(id, sent.len() as u64, size)).is_err());
            sent.push(due);
            due += every;
        }
    }
    raw.completed = !sent.is_empty();
    raw.octets = raw.arrivals.iter().map(|(_, n)| n).sum();
    raw.first_byte_ns = raw.arrivals.first().map(|(t, _)| *t);
    raw.last_byte_ns = raw.arrivals.last().map(|(t, _)| *t);
    raw.probes = (0u64..)
        .zip(&sent)
        .map(|(number, due)| Probe {
            sent_ns: workload.since_epoch(*due),
            rtt_ns: answers.get(&number).map(|at| at.since(*due).as_nanos()),
        })
        .collect();
    let priority = if preferred { "at" } else { "without" };
    let note =
        format!("flow {}: {priority} real-time priority, {unsent} requests refused by the kernel", workload.name);
    Ok((raw, Some(note)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_known_by_its_id_and_its_whole_number() {
        let mut message = request(7, 70_000, 56);
        assert_eq!((message.len(), checksum(&[&message])), (64, 0));
        let packet = |message: &[u8]| [&[0x45; IPV4_HEADER_LEN], message].concat();
        assert_eq!(answered(&packet(&message), 7), None, "a request is no answer");
        // The kernel changes the type and therefore the checksum.
        message[0] = ECHO_REPLY;
        message[2..4].fill(0);
        let sum = checksum(&[&message]);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(answered(&packet(&message), 7), Some(70_000));
        assert_eq!(answered(&packet(&message), 8), None);
        message[20] ^= 1;
        assert_eq!(answered(&packet(&message), 7), None, "damaged");
        assert_eq!((answered(&[], 7), answered(&[0x45], 7)), (None, None));
    }
}
