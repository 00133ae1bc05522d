//! Readers of pages: each object of a page is fetched on its own connection, at its scheduled time.

use crate::LabError;
use crate::fetch::{Log, exchange};
use crate::workload::Workload;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use wavelane_base::{Chance, Span};
use wavelane_host::realtime;
use wavelane_run::schedule::{Pages, Reader, Step};
use wavelane_run::{Fetch, FlowRaw};

/// Longest wait, so that a stop request is noticed in time.
const GLANCE: Span = Span::from_millis(20);
/// Maximum number of objects of a session; a reader that wants one more ends, as in the simulator.
const OBJECTS_BOUND: usize = 1 << 18;

/// Reads until the session or the time is over. The calling thread must be inside the client's namespace.
pub(crate) fn run(workload: Workload, pages: Pages, dice: Chance) -> Result<(FlowRaw, Option<String>), LabError> {
    let workload = Arc::new(workload);
    let log = Arc::new(Mutex::new(Log::default()));
    let (ended, endings) = channel();
    let mut reader = Reader::new(workload.start, pages, dice);
    let (mut threads, mut open): (Vec<JoinHandle<()>>, _) = (Vec::new(), 0);
    let mut refused = false;
    loop {
        let now = realtime::now().max(workload.start);
        if workload.cancelled() || now >= workload.stop {
            break;
        }
        let until = match reader.step(now, open) {
            Step::End => break,
            Step::Wait(until) => until.unwrap_or(workload.stop),
            Step::Ask { page, size } => {
                let number = {
                    let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
                    let connect_ns = workload.since_epoch(now);
                    log.fetches.push(Fetch { page, connect_ns, first_byte_ns: None, total_ns: None });
                    log.fetches.len() - 1
                };
                refused = number + 1 >= OBJECTS_BOUND;
                if refused {
                    break;
                }
                let (workload, log, ended) = (Arc::clone(&workload), Arc::clone(&log), ended.clone());
                let work = move || {
                    // A fetch that did not end has no times in the log, and is not repeated.
                    let _ = exchange(&workload, size, number, (now, workload.stop), &log);
                    // The reader may already have ended.
                    let _ = ended.send(());
                };
                let thread = std::thread::Builder::new().name("object".into()).spawn(work);
                threads.retain(|thread| !thread.is_finished());
                threads.push(
                    thread.map_err(LabError::io("cannot start a thread for an object; raise the process limit"))?,
                );
                open += 1;
                continue;
            }
        };
        let wait = until.min(workload.stop).since(now).min(GLANCE);
        match endings.recv_timeout(Duration::from_nanos(wait.as_nanos())) {
            Ok(()) => open -= 1,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
    }
    // Each ends by itself at the flow's stop. A thread that panicked has reported it on stderr.
    threads.into_iter().for_each(|thread| drop(thread.join()));
    let log = std::mem::take(&mut *log.lock().unwrap_or_else(PoisonError::into_inner));
    let ends = || log.fetches.iter().filter_map(|f| Some(f.connect_ns + f.total_ns?));
    let raw = FlowRaw {
        first_byte_ns: log.fetches.iter().filter_map(|f| Some(f.connect_ns + f.first_byte_ns?)).min(),
        last_byte_ns: ends().max(),
        completed: !refused && log.damaged == 0,
        octets: log.octets,
        ..workload.raw("web", workload.since_epoch(workload.start))
    };
    let note = (log.damaged > 0).then(|| format!("flow {}: {} objects arrived damaged", workload.name, log.damaged));
    Ok((FlowRaw { fetches: log.fetches, ..raw }, note))
}
