//! Echo: small requests over one TCP connection on a fixed schedule, open loop, answered by the far node.

use crate::LabError;
use crate::content::note_arrival;
use crate::sockets;
use crate::worker::Worker;
use crate::workload::Workload;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use wavelane_base::{Chance, Instant, Span};
use wavelane_host::netns::Netns;
use wavelane_host::realtime;
use wavelane_run::{FlowRaw, Probe};

/// An answer that arrives later than this after the last request is lost (the figure's definition).
const PATIENCE: Span = Span::from_secs(5);
/// Minimum request size, for its number.
pub(crate) const PROBE_MIN: u64 = 8;
/// Largest request.
pub(crate) const PROBE_MAX: u64 = 65_536;
/// Interval at which waiting threads check whether they must stop.
const GLANCE: Span = Span::from_millis(20);

/// Starts the answering side: it serves the clients that connect to `address` inside `ns`, one after the other.
pub(crate) fn answerer(ns: &Netns, address: SocketAddr, control: &str) -> Result<Worker, LabError> {
    let listener = sockets::listen(ns, address, control)?;
    let worker = Worker::start("echo-server", move |stop| {
        // A broken connection ends the echo; the client's side of the run reports it.
        let _ = serve(&listener, stop);
    });
    worker.map_err(LabError::io("cannot start a thread to answer echoes"))
}

/// Schedule of the requests.
pub(crate) enum Pace {
    /// One per fixed interval.
    Every(Span),
    /// At exponential intervals with this mean.
    Random(Chance, Span),
}

impl Pace {
    fn next(&mut self) -> Span {
        match self {
            Self::Every(every) => *every,
            Self::Random(dice, mean) => dice.exponential(*mean),
        }
    }
}

/// Waits until `fd` is readable; false if `stop` was set first.
fn readable(fd: &impl AsFd, stop: &AtomicBool) -> std::io::Result<bool> {
    while !stop.load(Ordering::Acquire) {
        if realtime::wait(&[fd.as_fd()], realtime::now() + GLANCE)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn serve(listener: &TcpListener, stop: &AtomicBool) -> std::io::Result<()> {
    let mut buffer = vec![0; 1 << 16];
    while readable(listener, stop)? {
        let (mut stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        while readable(&stream, stop)? {
            match stream.read(&mut buffer) {
                Ok(0) | Err(_) => break,
                Ok(len) => stream.write_all(&buffer[..len])?,
            }
        }
    }
    Ok(())
}

/// Answers so far: the time at which each request's last byte came back.
#[derive(Default)]
struct Answers {
    at: BTreeMap<u64, Instant>,
    arrivals: Vec<(u64, u64)>,
    broken: bool,
}

/// Sends requests until the time is over, then waits for the outstanding answers. The calling thread must be inside the client's namespace.
/// The second value is the congestion control that the connection really used.
///
/// `size`: bytes of a request, at most [`PROBE_MAX`]; answers to requests of less than [`PROBE_MIN`] bytes, which have no room for a
/// number, are identified by their order. `over` is set when the accompanied flow has ended.
pub(crate) fn run(
    workload: &Workload,
    app: &'static str,
    mut pace: Pace,
    size: usize,
    over: &AtomicBool,
) -> Result<(FlowRaw, Option<String>), LabError> {
    let cancelled = || workload.cancelled();
    let over = || cancelled() || over.load(Ordering::Acquire);
    sockets::rest_until(workload.start, cancelled);
    let mut raw = workload.raw(app, workload.since_epoch(realtime::now()));
    let mut stream = match sockets::connect(workload.server, &workload.control, workload.stop, cancelled) {
        Ok(stream) => stream,
        Err(e) => return Ok((raw, Some(format!("flow {}: cannot connect: {e}", workload.name)))),
    };
    let used = sockets::control_of(&stream);
    let answers = Arc::new(Mutex::new(Answers::default()));
    let reader = listen(&stream, workload.epoch, size, &answers)?;
    let mut due = realtime::now();
    let mut sent = Vec::new();
    let mut broken = None;
    let mut question = vec![0; size];
    while due < workload.stop && sockets::rest_until(due, over) && !over() {
        if size >= PROBE_MIN as usize {
            question[..8].copy_from_slice(&(sent.len() as u64).to_be_bytes());
        }
        sent.push(due);
        if let Err(e) = stream.write_all(&question) {
            broken = Some(e);
            break;
        }
        due += pace.next();
    }
    let deadline = realtime::now() + PATIENCE;
    let waiting = || {
        let seen = answers.lock().unwrap_or_else(PoisonError::into_inner);
        !seen.broken && seen.at.len() < sent.len()
    };
    sockets::rest_until(deadline, || cancelled() || !waiting());
    let ended_well = broken.is_none() && !answers.lock().unwrap_or_else(PoisonError::into_inner).broken;
    // Wakes the reader; the connection may be broken already.
    let _ = stream.shutdown(Shutdown::Both);
    let _ = reader.join();
    let mut seen = answers.lock().unwrap_or_else(PoisonError::into_inner);
    raw.completed = ended_well && !sent.is_empty();
    raw.octets = seen.arrivals.iter().map(|(_, n)| n).sum();
    raw.first_byte_ns = seen.arrivals.first().map(|(t, _)| *t);
    raw.last_byte_ns = seen.arrivals.last().map(|(t, _)| *t);
    raw.arrivals = std::mem::take(&mut seen.arrivals);
    raw.probes = (0u64..)
        .zip(&sent)
        .map(|(number, due)| Probe {
            sent_ns: workload.since_epoch(*due),
            rtt_ns: seen.at.get(&number).map(|at| at.since(*due).as_nanos()),
        })
        .collect();
    let note = match broken {
        Some(e) => format!("flow {}: the connection broke: {e}", workload.name),
        None => format!("flow {}: congestion control {used}", workload.name),
    };
    Ok((raw, Some(note)))
}

/// Starts the thread that reads the answers.
fn listen(
    stream: &TcpStream,
    epoch: Instant,
    size: usize,
    answers: &Arc<Mutex<Answers>>,
) -> Result<JoinHandle<()>, LabError> {
    let mut stream = stream.try_clone().map_err(LabError::io("cannot read an echo connection"))?;
    let answers = Arc::clone(answers);
    let thread = std::thread::Builder::new().name("echo-reader".into()).spawn(move || {
        let mut answer = vec![0; size];
        let mut order = 0;
        while stream.read_exact(&mut answer).is_ok() {
            let now = realtime::now();
            let mut seen = answers.lock().unwrap_or_else(PoisonError::into_inner);
            let number = answer.first_chunk().map_or(order, |number| u64::from_be_bytes(*number));
            order += 1;
            seen.at.entry(number).or_insert(now);
            note_arrival(&mut seen.arrivals, now.since(epoch).as_nanos(), size as u64);
        }
        answers.lock().unwrap_or_else(PoisonError::into_inner).broken = true;
    });
    thread.map_err(LabError::io("cannot start a thread to read echoes"))
}
