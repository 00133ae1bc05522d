//! Fetches: small bodies, each on its own connection, at fixed times whether or not earlier ones have ended.
//!
//! The client sends its number and the size it wants; the server answers with a body derived from both and closes.

use crate::LabError;
use crate::sockets;
use crate::worker::Worker;
use crate::workload::Workload;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use wavelane_base::{Instant, Span};
use wavelane_host::netns::Netns;
use wavelane_host::realtime;
use wavelane_run::{Fetch, FlowRaw};

/// Time after the flow's end within which an exchange may still end (the figure's definition).
const PATIENCE: Span = Span::from_secs(5);
/// Interval at which waiting threads check whether they must stop.
const GLANCE: Span = Span::from_millis(20);
/// Bytes of a request: number and size.
const REQUEST: usize = 16;
/// Maximum number of concurrent exchanges, at either end; any further one is counted as begun and never ended.
const AT_ONCE_MAX: usize = 256;
/// Bytes read or written at once.
const CHUNK: usize = 16 << 10;

/// The byte at `place` of the body of exchange `number`.
fn byte(number: u64, place: u64) -> u8 {
    (number.wrapping_mul(31).wrapping_add(place.wrapping_mul(7)) >> 1) as u8
}

/// Starts the answering side: it serves every client that connects to `address` inside `ns`.
pub(crate) fn answerer(ns: &Netns, address: SocketAddr, control: &str) -> Result<Worker, LabError> {
    let listener = sockets::listen(ns, address, control)?;
    let worker = Worker::start("fetch-server", move |stop| {
        let mut answering: Vec<JoinHandle<()>> = Vec::new();
        while !stop.load(Ordering::Acquire) {
            let waited = realtime::wait(&[listener.as_fd()], realtime::now() + GLANCE);
            answering.retain(|thread| !thread.is_finished());
            if matches!(waited, Ok(true)) && answering.len() < AT_ONCE_MAX {
                answering.extend(accept(&listener, stop));
            }
        }
        // A thread that panicked has already reported it on stderr.
        answering.into_iter().for_each(|thread| drop(thread.join()));
    });
    worker.map_err(LabError::io("cannot start a thread to answer fetches"))
}

fn accept(listener: &TcpListener, stop: &Arc<AtomicBool>) -> Option<JoinHandle<()>> {
    let (stream, _) = listener.accept().ok()?;
    let stop = Arc::clone(stop);
    let work = move || {
        // The client's side of the run reports what did not arrive.
        let _ = answer(stream, &stop);
    };
    std::thread::Builder::new().name("fetch-answer".into()).spawn(work).ok()
}

/// One exchange; abandoned in any state when `stop` is set.
fn answer(mut stream: TcpStream, stop: &AtomicBool) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    let mut request = [0; REQUEST];
    patiently(&stream, stop, false, |mut s| s.peek_all(&mut request))?;
    let half = |at: usize| u64::from_be_bytes(request[at..at + 8].try_into().expect("eight bytes"));
    let (number, size) = (half(0), half(8));
    let mut sent = 0;
    while sent < size {
        let len = (size - sent).min(CHUNK as u64);
        let bytes: Vec<u8> = (sent..sent + len).map(|place| byte(number, place)).collect();
        sent += patiently(&stream, stop, true, |mut s| s.write(&bytes))? as u64;
    }
    stream.shutdown(Shutdown::Write)?;
    // Waits until the client has closed too, so that closing does not reset data in flight.
    let mut rest = [0; REQUEST];
    let _ = stream.read(&mut rest);
    patiently(&stream, stop, false, |mut s| s.read(&mut rest).map(drop))
}

/// Reading a whole request without blocking.
trait PeekAll {
    fn peek_all(&mut self, out: &mut [u8]) -> std::io::Result<()>;
}

impl PeekAll for &TcpStream {
    fn peek_all(&mut self, out: &mut [u8]) -> std::io::Result<()> {
        match self.peek(out)? {
            0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
            len if len < out.len() => Err(std::io::ErrorKind::WouldBlock.into()),
            _ => self.read_exact(out),
        }
    }
}

/// Retries until the socket is ready or `stop` is set.
fn patiently<T>(
    stream: &TcpStream,
    stop: &AtomicBool,
    writing: bool,
    mut attempt: impl FnMut(&TcpStream) -> std::io::Result<T>,
) -> std::io::Result<T> {
    while !stop.load(Ordering::Acquire) {
        match attempt(stream) {
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {}
            other => return other,
        }
        let until = realtime::now() + GLANCE;
        if writing {
            realtime::wait_writable(stream.as_fd(), until)?;
        } else {
            realtime::wait(&[stream.as_fd()], until)?;
        }
    }
    Err(std::io::ErrorKind::Interrupted.into())
}

/// Outcomes so far; `None` stands for an exchange that has not ended.
#[derive(Default)]
pub(crate) struct Log {
    pub(crate) fetches: Vec<Fetch>,
    pub(crate) octets: u64,
    pub(crate) damaged: u64,
}

/// Starts an exchange at each due time and waits for the outstanding ones. The calling thread must be inside the client's namespace.
pub(crate) fn run(workload: Workload, every: Span, size: u64) -> Result<(FlowRaw, Option<String>), LabError> {
    let workload = Arc::new(workload);
    let log = Arc::new(Mutex::new(Log::default()));
    let busy = Arc::new(AtomicUsize::new(0));
    let cancelled = || workload.cancelled();
    let mut due = workload.start;
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    while due < workload.stop && sockets::rest_until(due, cancelled) {
        let number = {
            let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
            let connect_ns = workload.since_epoch(due);
            let page = u32::try_from(log.fetches.len()).unwrap_or(u32::MAX);
            log.fetches.push(Fetch { page, connect_ns, first_byte_ns: None, total_ns: None });
            log.fetches.len() - 1
        };
        threads.retain(|thread| !thread.is_finished());
        if busy.load(Ordering::Acquire) < AT_ONCE_MAX {
            busy.fetch_add(1, Ordering::AcqRel);
            let (workload, log, busy) = (Arc::clone(&workload), Arc::clone(&log), Arc::clone(&busy));
            let work = move || {
                // An exchange that did not end has no times in the log.
                let _ = exchange(&workload, size, number, (due, workload.stop + PATIENCE), &log);
                busy.fetch_sub(1, Ordering::AcqRel);
            };
            let thread = std::thread::Builder::new().name("fetch".into()).spawn(work);
            threads.push(thread.map_err(LabError::io("cannot start a thread for a fetch; raise the process limit"))?);
        }
        due += every;
    }
    // Each ends by itself, PATIENCE after the flow's end or when cancelled. A thread that panicked has reported it on stderr.
    threads.into_iter().for_each(|thread| drop(thread.join()));
    let log = std::mem::take(&mut *log.lock().unwrap_or_else(PoisonError::into_inner));
    let note = (log.damaged > 0).then(|| format!("flow {}: {} bodies arrived damaged", workload.name, log.damaged));
    Ok((raw(&workload, log), note))
}

fn raw(workload: &Workload, log: Log) -> FlowRaw {
    let ends = || log.fetches.iter().filter_map(|f| Some(f.connect_ns + f.total_ns?));
    let firsts = log.fetches.iter().filter_map(|f| Some(f.connect_ns + f.first_byte_ns?));
    FlowRaw {
        first_byte_ns: firsts.min(),
        last_byte_ns: ends().max(),
        completed: !log.fetches.is_empty() && ends().count() == log.fetches.len(),
        intact: Some(log.damaged == 0),
        octets: log.octets,
        fetches: log.fetches,
        ..workload.raw("fetch", workload.since_epoch(workload.start))
    }
}

/// One exchange, logged if it ends. Its time runs from its due time: the thread's start is a cost of the host, some tens of microseconds,
/// and part of what a busy host would add.
pub(crate) fn exchange(
    workload: &Workload,
    size: u64,
    number: usize,
    (due, deadline): (Instant, Instant),
    log: &Mutex<Log>,
) -> std::io::Result<()> {
    let over = || workload.cancelled() || realtime::now() > deadline;
    let mut stream = sockets::connect(workload.server, &workload.control, deadline, over)?;
    let mut request = [0; REQUEST];
    request[..8].copy_from_slice(&(number as u64).to_be_bytes());
    request[8..].copy_from_slice(&size.to_be_bytes());
    stream.write_all(&request)?;
    stream.set_read_timeout(Some(Duration::from_nanos(GLANCE.as_nanos())))?;
    let (mut place, mut sound) = (0, true);
    let mut buffer = vec![0; CHUNK];
    while place < size {
        let len = match stream.read(&mut buffer) {
            Ok(0) => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            Ok(len) => len,
            Err(_) if over() => return Err(std::io::ErrorKind::TimedOut.into()),
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => continue,
            Err(e) => return Err(e),
        };
        let taken = realtime::now().since(due).as_nanos();
        sound &= (place..).zip(&buffer[..len]).all(|(at, b)| *b == byte(number as u64, at));
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        log.octets += len as u64;
        log.fetches[number].first_byte_ns.get_or_insert(taken);
        place += len as u64;
        if place >= size {
            log.fetches[number].total_ns = Some(taken);
            log.damaged += u64::from(!sound);
        }
    }
    Ok(())
}
