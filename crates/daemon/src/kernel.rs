//! The kernel's rules and routes, on a thread of their own: the time that the tools take delays no packet.

use crate::config::Config;
use crate::device::Ways;
use crate::rules::Rules;
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use wavelane_host::nft::ToolError;

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
        }
        self.ways.as_mut().map_or(Ok(()), |ways| ways.lead(config, down))
    }
}

/// What the kernel's rules and routes are to say.
#[derive(Clone, Debug)]
struct Wanted {
    config: Box<Config>,
    down: Down,
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
}

/// How often the rules' owner is checked.
const LOOK_EVERY: Duration = Duration::from_secs(1);

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
        let work = move || {
            // Of consecutive failures to renew the rules only the first is logged.
            let mut failing = false;
            loop {
                let answer = match to_do.recv_timeout(LOOK_EVERY) {
                    Ok((change, new, old)) => {
                        let were_gone = installed.rules.are_gone();
                        let done = installed.lead(change, &new, &old);
                        if were_gone && done.is_ok() {
                            failing = false;
                            let _ = tell.send((Change::Gone, Ok(())));
                        }
                        stands = if done.is_ok() { new } else { old };
                        (change, done)
                    }
                    Err(RecvTimeoutError::Timeout) if installed.rules.are_gone() => {
                        let done = installed.try_lead(Change::Gone, &stands);
                        let told = failing && done.is_err();
                        failing = done.is_err();
                        if told {
                            continue;
                        }
                        (Change::Gone, done)
                    }
                    Err(RecvTimeoutError::Timeout) => continue,
                    Err(RecvTimeoutError::Disconnected) => break,
                };
                if tell.send(answer).is_err() {
                    break;
                }
                // A bell that is full rings already.
                let _ = ring.write(&[1]);
            }
            installed
        };
        let thread = std::thread::Builder::new().name("kernel".into()).spawn(work)?;
        Ok(Self { holds_syns, in_force, ordered: None, orders: Some(orders), done, thread: Some(thread), bell })
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
    }
    /// Whose networks are given back, as the kernel confirmed.
    pub(crate) fn given_back(&self) -> &Down {
        &self.in_force.down
    }
    /// The result of the change once it is known, or that something had vanished. `None` until then.
    pub(crate) fn answered(&mut self) -> Option<(Change, Result<(), ToolError>)> {
        while matches!(io::Read::read(&mut self.bell, &mut [0; 64]), Ok(n) if n > 0) {}
        let result = match self.done.try_recv() {
            Ok((Change::Gone, result)) => return Some((Change::Gone, result)),
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
        self.thread.take().and_then(|thread| thread.join().ok())
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        // Removes what is installed before the process ends.
        drop(self.end());
    }
}
