//! The kernel's rules and routes, on a thread of their own: the time that the tools take delays no packet.

use crate::config::Config;
use crate::device::Ways;
use crate::firewall;
use crate::rules::{self, Rules};
use crate::standing::{Part, Standing};
use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use wavelane_base::IpPrefix;
use wavelane_host::nft::ToolError;
use wavelane_host::routes::StateWatch;

/// The public keys of the peers whose networks are given back: what goes there is forwarded plainly.
pub(crate) type Down = BTreeSet<[u8; 32]>;

/// What is installed. Dropping it removes it, except for the rules that refuse connections and packets while no gateway runs.
#[derive(Debug)]
pub(crate) struct Installed {
    pub(crate) rules: Rules,
    pub(crate) ways: Option<Ways>,
}

impl Installed {
    /// Puts `new` in force in place of `old`, or leaves everything as it was.
    fn lead(&mut self, change: Change, new: &Wanted, old: &Wanted) -> Result<(), ToolError> {
        let done = self.try_lead(change, new);
        if done.is_err() {
            // What the kernel accepted already is undone; it accepted the old state before, so this does not fail again.
            let _ = self.try_lead(change, old);
        }
        done
    }
    fn try_lead(&mut self, change: Change, wanted: &Wanted) -> Result<(), ToolError> {
        let (config, down) = (&wanted.config, &wanted.down);
        match change {
            Change::Config => self.rules.replace(config, down)?,
            Change::Down => self.rules.take(config, down)?,
            Change::Gone => return self.rules.take(config, down),
            Change::Back(part) => return self.put_back(part, wanted),
        }
        self.ways.as_mut().map_or(Ok(()), |ways| ways.lead(config, down))
    }
    /// Makes anew what another program took away.
    fn put_back(&mut self, part: Part, wanted: &Wanted) -> Result<(), ToolError> {
        match part {
            Part::PolicyRules | Part::Routes | Part::Device => {
                self.rules.lead_home()?;
                self.ways.as_mut().map_or(Ok(()), |ways| ways.renew(&wanted.config, &wanted.down))
            }
            Part::ClosedTable => rules::close(&wanted.config),
            Part::HeldSyns => self.rules.hold_anew(&wanted.config),
        }
    }
}

/// What stood when it was last put right, what stands, and the networks that this host is attached to.
#[derive(Debug)]
struct Watched {
    whole: Standing,
    last: Standing,
    attached: Vec<IpPrefix>,
    /// What could not be put back, and was told.
    failing: BTreeSet<Part>,
}

impl Watched {
    fn new(installed: &Installed, stands: &Wanted) -> Self {
        let whole = Standing::read(&stands.config, installed.rules.holds_syns(), &Standing::default());
        let attached = left_alone(&stands.config).unwrap_or_default();
        Self { last: whole.clone(), whole, attached, failing: BTreeSet::new() }
    }
    /// Something was changed by us. What vanished meanwhile and does not follow from the change is put back, not forgotten.
    fn note(&mut self, installed: &mut Installed, stands: &Wanted) {
        self.read(installed, stands);
        for part in self.whole.missing(&self.last) {
            let again = match part {
                Part::PolicyRules | Part::Device => true,
                Part::HeldSyns => self.last.holds_nothing(),
                Part::Routes | Part::ClosedTable => false,
            };
            if again {
                // If it fails it is missing at the next look, for the old state stays the whole one.
                if installed.put_back(part, stands).is_err() {
                    return;
                }
                self.read(installed, stands);
            }
        }
        self.whole = self.last.clone();
    }
    fn read(&mut self, installed: &Installed, stands: &Wanted) {
        self.last = Standing::read(&stands.config, installed.rules.holds_syns(), &self.last);
    }
    /// Puts back what is missing. Returns what is to be told.
    fn look(&mut self, installed: &mut Installed, stands: &Wanted) -> Vec<(Change, Result<(), ToolError>)> {
        self.read(installed, stands);
        let mut told = Vec::new();
        for part in self.whole.missing(&self.last) {
            let mut done = installed.put_back(part, stands);
            self.read(installed, stands);
            if done.is_ok() && self.whole.missing(&self.last).contains(&part) {
                let said = "it is gone again at once: another program takes it away".into();
                done = Err(ToolError::Refused { tool: "the kernel".into(), said });
            }
            let failed = done.is_err();
            if failed && !self.failing.insert(part) {
                continue;
            }
            self.failing.retain(|of| failed || *of != part);
            told.push((Change::Back(part), done));
        }
        told
    }
    /// Leaves alone the networks that this host is attached to now, if these are others than before.
    fn follow(&mut self, installed: &mut Installed, stands: &Wanted) {
        let Ok(attached) = left_alone(&stands.config) else { return };
        if attached != self.attached && installed.try_lead(Change::Config, stands).is_ok() {
            self.attached = attached;
            self.note(installed, stands);
        }
    }
}

/// What the kernel's rules and routes are to say.
#[derive(Clone, Debug)]
struct Wanted {
    config: Box<Config>,
    down: Down,
}

/// The networks that this host is attached to under a wider one of a peer.
fn left_alone(config: &Config) -> Result<Vec<IpPrefix>, ToolError> {
    let networks: Vec<IpPrefix> = config.peers.iter().flat_map(|peer| peer.routes.iter().copied()).collect();
    let attached = rules::attached(config)?;
    Ok(rules::excepted(&networks, &attached).collect())
}

/// What is to change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    /// The configuration.
    Config,
    /// Whose networks are given back.
    Down,
    /// Nothing: what had vanished is made anew.
    Gone,
    /// Nothing: another program took this part away, and it is put back.
    Back(Part),
}

/// How often all that stands in the kernel is checked, word of changes or not.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The least time between two checks that word of changes causes: a router's table may change many times a second.
const REST: Duration = Duration::from_millis(400);

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
    /// What on this host keeps traffic from us now.
    hindrances: Arc<Mutex<Vec<String>>>,
    /// Those of them that were logged.
    told: Vec<String>,
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
        let told = firewall::findings(config);
        let hindrances = Arc::new(Mutex::new(told.clone()));
        let found = Arc::clone(&hindrances);
        let work = move || {
            // Of consecutive failures to renew the rules only the first is logged.
            let mut failing = false;
            let mut watched = Watched::new(&installed, &stands);
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
                let before = watched.last.generation();
                answers.extend(watched.look(&mut installed, &stands));
                if before.is_none() || before != watched.last.generation() {
                    let now = firewall::findings(&stands.config);
                    let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                    if *found != now {
                        *found = now;
                        let _ = ring.write(&[1]);
                    }
                }
                match to_do.try_recv() {
                    Ok((change, new, old)) => {
                        let done = installed.lead(change, &new, &old);
                        stands = if done.is_ok() { new } else { old };
                        watched.note(&mut installed, &stands);
                        answers.push((change, done));
                    }
                    Err(TryRecvError::Empty) if news.changed => watched.follow(&mut installed, &stands),
                    Err(TryRecvError::Empty) => {}
                    Err(TryRecvError::Disconnected) => break,
                }
                for answer in answers {
                    if tell.send(answer).is_err() {
                        return installed;
                    }
                    // A bell that is full rings already.
                    let _ = ring.write(&[1]);
                }
                if news.changed {
                    StateWatch::rest(woken.as_fd(), REST);
                }
            }
            installed
        };
        let thread = std::thread::Builder::new().name("kernel".into()).spawn(work)?;
        let (orders, wake, thread) = (Some(orders), Some(wake), Some(thread));
        Ok(Self { holds_syns, in_force, ordered: None, orders, hindrances, told, wake, done, thread, bell })
    }
    /// What on this host keeps traffic from us now.
    pub(crate) fn hindrances(&self) -> Vec<String> {
        self.hindrances.lock().unwrap_or_else(PoisonError::into_inner).clone()
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
    /// Whose networks are given back, as the kernel confirmed.
    pub(crate) fn given_back(&self) -> &Down {
        &self.in_force.down
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
