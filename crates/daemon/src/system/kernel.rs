//! The kernel's rules and routes, on a thread of their own: the time that the tools take delays no packet.

mod pace;
mod watched;

pub(crate) use pace::Failing;

use super::family::Family;
use super::firewall::{self, Reached, older};
use super::installed::{Change, Installed, Wanted};
use super::rules::Down;
use crate::config::Config;
use pace::Pace;
use std::io::{self, Read, Write};
use std::ops::RangeInclusive;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use watched::Watched;
use wavelane_base::{Instant, Span};
use wavelane_host::clock::since_boot;
use wavelane_host::nft::ToolError;
use wavelane_host::routes::StateWatch;
use wavelane_host::tun::OffloadTun;

/// How often all that stands in the kernel is checked, word of changes or not.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The least time between two checks that word of changes causes, since a router's table may change many times a second: this many times
/// what the last one took, within bounds by which all is put back within a second.
const REST_PER_LOOK: u64 = 9;
const REST: RangeInclusive<Span> = Span::from_millis(400)..=Span::from_millis(900);
/// How often at most the thread is told where peers are reached: a hub has thousands of them.
const REACHED_EVERY: Span = Span::from_secs(1);

/// What the thread found, besides answers to orders.
#[derive(Debug, Default)]
struct Found {
    /// What on this host keeps traffic from us now.
    hindrances: Vec<String>,
    /// Lines for the log, at most [`NOTES_MAX`].
    notes: Vec<String>,
    /// A device that was made in place of one that is gone.
    device: Option<OffloadTun>,
}

/// Lines for the log that wait to be asked for; later ones are left out.
const NOTES_MAX: usize = 16;

impl Found {
    /// Adds what was found. Returns whether something is to be told.
    fn add(&mut self, hindrances: Option<Vec<String>>, notes: &mut Vec<String>, device: Option<OffloadTun>) -> bool {
        let news =
            hindrances.as_ref().is_some_and(|now| *now != self.hindrances) || !notes.is_empty() || device.is_some();
        self.hindrances = hindrances.unwrap_or_else(|| std::mem::take(&mut self.hindrances));
        self.notes.append(notes);
        self.notes.truncate(NOTES_MAX);
        self.device = device.or_else(|| self.device.take());
        news
    }
}

/// One order: what changes, to what, and from what.
type Order = (Change, Wanted, Wanted);

/// Has changes made, one at a time.
#[derive(Debug)]
pub(crate) struct Kernel {
    /// Whether SYNs are held until the far server has answered.
    pub(crate) holds_syns: bool,
    in_force: Wanted,
    /// What was ordered and not answered.
    ordered: Option<(Change, Wanted)>,
    orders: Option<Sender<Order>>,
    /// What the thread found.
    found: Arc<Mutex<Found>>,
    /// Those of them that were logged.
    told: Vec<String>,
    /// Where peers are reached, and when that was last told.
    reached: Arc<Mutex<Reached>>,
    reached_at: Option<Instant>,
    /// Wakes the thread for an order, or by being closed.
    wake: Option<UnixStream>,
    done: Receiver<(Change, Result<(), ToolError>)>,
    thread: Option<JoinHandle<Installed>>,
    /// Readable when a change was made or refused.
    pub(crate) bell: UnixStream,
}

impl Kernel {
    /// Hands what is installed for `config` to a thread.
    pub(crate) fn start(mut installed: Installed, config: &Config) -> io::Result<Self> {
        let (mut ring, bell) = UnixStream::pair()?;
        ring.set_nonblocking(true)?;
        bell.set_nonblocking(true)?;
        let holds_syns = installed.rules.holds_syns();
        let (orders, to_do) = channel::<Order>();
        let (tell, done) = channel();
        let in_force = Wanted { config: Box::new(config.clone()), down: Down::new() };
        let mut stands = in_force.clone();
        let (wake, woken) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        woken.set_nonblocking(true)?;
        let watch = StateWatch::open();
        // Those at the start are among the warnings.
        let told = firewall::hindrances(config, &Reached::new());
        let reached = Arc::new(Mutex::new(Reached::new()));
        let reaches = Arc::clone(&reached);
        let found = Arc::new(Mutex::new(Found { hindrances: told.clone(), ..Found::default() }));
        let finds = Arc::clone(&found);
        let work = move || {
            // Of consecutive failures to renew the rules only the first is logged.
            let mut failing = false;
            let mut watched = Watched::new(&installed, &stands);
            let mut reached = Reached::new();
            let (mut rulesets, mut read, mut switches) =
                (Pace::default(), since_boot(), firewall::switches(&stands.config));
            loop {
                let news = watch.wait(woken.as_fd(), LOOK_EVERY);
                while matches!((&woken).read(&mut [0; 64]), Ok(n) if n > 0) {}
                let mut answers = Vec::new();
                if installed.rules.are_gone() {
                    let done = installed.try_lead(Change::Gone, &stands);
                    let told = failing && done.is_err();
                    failing = done.is_err();
                    answers.extend((!told).then_some((Change::Gone, done)));
                }
                let (before, began) = (watched.last.generation(), since_boot());
                answers.extend(watched.look(began, &mut installed, &stands));
                let switched = core::mem::replace(&mut switches, firewall::switches(&stands.config)) != switches;
                let now_reached = reaches.lock().unwrap_or_else(PoisonError::into_inner).clone();
                let moved = core::mem::replace(&mut reached, now_reached) != reached;
                let older =
                    since_boot().since(read) >= older::READ_EVERY && Family::ALL.into_iter().any(older::has_tables);
                let changed = older
                    || switched
                    || moved
                    || news.changed
                    || before.is_none()
                    || before != watched.last.generation();
                let hindrances = rulesets.comes(since_boot(), changed).then(|| {
                    let began = since_boot();
                    let found = firewall::hindrances(&stands.config, &reached);
                    read = since_boot();
                    rulesets.did(began, read);
                    found
                });
                match to_do.try_recv() {
                    Ok((change, new, old)) => {
                        let (done, whole) = installed.lead(change, &new, &old);
                        stands = if done.is_ok() { new } else { old };
                        if !whole {
                            watched.half_led(since_boot());
                        }
                        watched.note(&mut installed, &stands);
                        // By another file other networks may be left alone.
                        watched.follow(since_boot(), change == Change::Config, &mut installed, &stands);
                        answers.push((change, done));
                    }
                    Err(TryRecvError::Empty) => {
                        watched.follow(since_boot(), switched || news.changed, &mut installed, &stands);
                    }
                    Err(TryRecvError::Disconnected) => break,
                }
                let made = installed.ways.as_mut().and_then(|ways| ways.made.take());
                if finds.lock().unwrap_or_else(PoisonError::into_inner).add(hindrances, &mut watched.notes, made) {
                    let _ = ring.write(&[1]);
                }
                let took = since_boot().since(began);
                for answer in answers {
                    if tell.send(answer).is_err() {
                        return installed;
                    }
                    // A bell that is full rings already.
                    let _ = ring.write(&[1]);
                }
                if news.changed {
                    let rest = took.times(REST_PER_LOOK).clamp(*REST.start(), *REST.end());
                    StateWatch::rest(woken.as_fd(), Duration::from_nanos(rest.as_nanos()));
                }
            }
            installed
        };
        let thread = std::thread::Builder::new().name("kernel".into()).spawn(work)?;
        let (orders, wake, thread) = (Some(orders), Some(wake), Some(thread));
        Ok(Self {
            holds_syns,
            in_force,
            ordered: None,
            orders,
            found,
            told,
            reached,
            reached_at: None,
            wake,
            done,
            thread,
            bell,
        })
    }
    /// What on this host keeps traffic from us now.
    pub(crate) fn hindrances(&self) -> Vec<String> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).hindrances.clone()
    }
    /// What keeps datagrams from `all` addresses of peers, or from here to them, is looked for.
    pub(crate) fn reach(&mut self, now: Instant, all: impl FnOnce() -> Reached) {
        if self.reached_at.is_some_and(|at| now.since(at) < REACHED_EVERY) {
            return;
        }
        self.reached_at = Some(now);
        let (all, mut told) = (all(), self.reached.lock().unwrap_or_else(PoisonError::into_inner));
        if *told != all {
            *told = all;
            let _ = self.wake.as_ref().map(|mut wake| wake.write(&[1]));
        }
    }
    /// Lines for the log since this was last asked.
    pub(crate) fn notes(&self) -> Vec<String> {
        std::mem::take(&mut self.found.lock().unwrap_or_else(PoisonError::into_inner).notes)
    }
    /// A device that was made in place of one that somebody deleted.
    pub(crate) fn new_device(&self) -> Option<OffloadTun> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).device.take()
    }
    /// Those that are new since this was last asked.
    pub(crate) fn new_hindrances(&mut self) -> Vec<String> {
        let now = self.hindrances();
        let new = now.iter().filter(|one| !self.told.contains(one)).cloned().collect();
        self.told = now;
        new
    }
    /// Whether a change is being made; the next has to wait for its end.
    pub(crate) fn is_busy(&self) -> bool {
        self.ordered.is_some()
    }
    /// Begins to route what `config` says.
    pub(crate) fn lead(&mut self, config: &Config) {
        let new = Wanted { config: Box::new(config.clone()), down: self.in_force.down.clone() };
        self.order(Change::Config, new);
    }
    /// Begins to forward plainly what goes to the peers `down`, and to take what goes to the others.
    pub(crate) fn give_back(&mut self, down: &Down) {
        let new = Wanted { config: self.in_force.config.clone(), down: down.clone() };
        self.order(Change::Down, new);
    }
    fn order(&mut self, change: Change, new: Wanted) {
        self.ordered = Some((change, new.clone()));
        if let Some(orders) = &self.orders {
            // Without the thread there is no answer, which `take` tells.
            let _ = orders.send((change, new, self.in_force.clone()));
        }
        // A full pipe wakes it already.
        let _ = self.wake.as_ref().map(|mut wake| wake.write(&[1]));
    }
    /// The result of the change once it is known, or that something had vanished. `None` until then.
    pub(crate) fn answered(&mut self) -> Option<(Change, Result<(), ToolError>)> {
        while matches!(self.bell.read(&mut [0; 64]), Ok(n) if n > 0) {}
        let result = match self.done.try_recv() {
            Ok((change @ (Change::Gone | Change::Back(_)), result)) => return Some((change, result)),
            Ok((_, result)) => result,
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Disconnected) => {
                panic!("the thread of the rules is gone: this is a bug, its panic message is above")
            }
        };
        let (change, new) = self.ordered.take()?;
        if result.is_ok() {
            self.in_force = new;
        }
        Some((change, result))
    }
    /// An orderly stop: everything is removed, what refuses new connections too.
    pub(crate) fn remove(mut self) {
        if let Some(installed) = self.end() {
            if let Some(ways) = installed.ways {
                ways.remove();
            }
            installed.rules.remove();
        }
    }
    fn end(&mut self) -> Option<Installed> {
        self.orders.take();
        self.wake.take();
        self.thread.take().and_then(|thread| thread.join().ok())
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        // Removes what is installed before the process ends.
        drop(self.end());
    }
}
