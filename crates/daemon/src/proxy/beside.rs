//! What a placement needs done beside the engine, on a thread of its own.

use super::config::Settings;
use super::neighbors::Neighbors;
use super::status::{Claims, Tunnel};
use super::tunnels::Tunnels;
use crate::config::Placement;
use crate::start::StartError;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use wavelane_base::Instant;
use wavelane_host::clock::NodeClock;
use wavelane_host::poller::{Poller, Watch};

/// Of word that the process ends; the work has the numbers below.
const TOKEN_END: u64 = 64;

/// What the thread does.
pub(super) trait Work: Send {
    /// Has its descriptors watched, under numbers below [`TOKEN_END`].
    fn watch(&self, poller: &Poller) -> io::Result<()>;
    /// What takes time, without anybody waiting for it.
    fn prepare(&mut self, now: Instant, poller: &Poller);
    /// Does what there is to do.
    fn turn(&mut self, now: Instant, told: &mut Told) -> io::Result<()>;
    /// When there will be something at the latest.
    fn deadline(&self) -> Instant;
    /// The last that it does.
    fn end(&mut self, now: Instant, told: &mut Told);
}

/// See [`Told::lost`].
pub(super) type Lost = ((String, String), Result<(), String>);

/// What it tells.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) tunnels: Vec<Tunnel>,
    pub(super) claims: Vec<Claims>,
    pub(super) counts: BTreeMap<&'static str, u64>,
    /// What another program took away: what it is and what usually takes it, and what became of it.
    pub(super) lost: Vec<Lost>,
    /// Lines for the log, of the end.
    pub(super) last: Option<String>,
    /// Why it could not go on.
    failure: Option<io::Error>,
}

impl Told {
    pub(super) fn one(&mut self, name: &'static str) {
        *self.counts.entry(name).or_default() += 1;
    }
}

/// What is to be done for a placement, if anything.
pub(super) fn work(settings: &Settings) -> Result<Option<Box<dyn Work>>, StartError> {
    Ok(match settings.placement {
        Placement::Tunnel => Some(Box::new(Tunnels::open(settings)?)),
        Placement::Arp => Some(Box::new(Neighbors::new(settings))),
        Placement::Route | Placement::Bridge | Placement::Option => None,
    })
}

/// The thread. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Beside {
    told: Arc<Mutex<Told>>,
    thread: Option<JoinHandle<()>>,
    end: Option<UnixStream>,
    /// Readable when there is something to log, or the thread could not go on.
    pub(super) bell: UnixStream,
}

impl Beside {
    pub(super) fn start(mut work: Box<dyn Work>) -> io::Result<Self> {
        let (end, ends) = UnixStream::pair()?;
        let (bell, mut rings) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        rings.set_nonblocking(true)?;
        let mut poller = Poller::new()?;
        poller.add(&ends, TOKEN_END, Watch::Readable)?;
        work.watch(&poller)?;
        let told = Arc::new(Mutex::new(Told::default()));
        let tells = Arc::clone(&told);
        let run = move || {
            // The one is closed when this returns, the other hears of the end.
            let _ends = ends;
            loop {
                let now = NodeClock.now();
                work.prepare(now, &poller);
                let mut told = tells.lock().unwrap_or_else(PoisonError::into_inner);
                if let Err(e) = work.turn(now, &mut told) {
                    told.failure = Some(e);
                    return;
                }
                if !told.lost.is_empty() {
                    // One that is full rings already.
                    let _ = rings.write(&[0]);
                }
                drop(told);
                match poller.wait(Some(NodeClock.until(work.deadline()))) {
                    Ok(ready) if ready.iter().any(|r| r.token == TOKEN_END) => {
                        return work.end(NodeClock.now(), &mut tells.lock().unwrap_or_else(PoisonError::into_inner));
                    }
                    Ok(_) => {}
                    Err(e) => {
                        tells.lock().unwrap_or_else(PoisonError::into_inner).failure = Some(e);
                        return;
                    }
                }
            }
        };
        let thread = std::thread::Builder::new().name("beside".into()).spawn(run)?;
        Ok(Self { told, thread: Some(thread), end: Some(end), bell })
    }
    /// What it tells now.
    pub(super) fn told(&self) -> (Vec<Tunnel>, Vec<Claims>, Vec<(&'static str, u64)>) {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        (told.tunnels.clone(), told.claims.clone(), told.counts.iter().map(|(name, n)| (*name, *n)).collect())
    }
    /// What is to be logged since it was last asked, or why it could not go on.
    pub(super) fn heard(&mut self) -> io::Result<Vec<Lost>> {
        let heard = self.bell.read(&mut [0; 64]);
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        match heard {
            Ok(0) => Err(told.failure.take().unwrap_or_else(|| ErrorKind::Other.into())),
            _ => Ok(std::mem::take(&mut told.lost)),
        }
    }
    /// Ends it. Returns what it says to that.
    pub(super) fn end(mut self) -> Option<String> {
        self.finish();
        self.told.lock().unwrap_or_else(PoisonError::into_inner).last.take()
    }
    fn finish(&mut self) {
        self.end.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.finish();
    }
}
