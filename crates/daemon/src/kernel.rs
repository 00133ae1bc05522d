//! The kernel's rules and routes, on a thread of their own: what the tools take for an answer keeps no packet waiting.

use crate::config::Config;
use crate::device::Ways;
use crate::rules::Rules;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use wavelane_host::nft::ToolError;

/// What is installed. Dropping it removes it, but for what refuses new connections while nobody takes them.
#[derive(Debug)]
pub(crate) struct Installed {
    pub(crate) rules: Rules,
    pub(crate) ways: Option<Ways>,
}

impl Installed {
    /// Routes what `new` says in place of `old`, or leaves everything as it was.
    fn lead(&mut self, new: &Config, old: &Config) -> Result<(), ToolError> {
        let done = self.try_lead(new);
        if done.is_err() {
            // What the kernel took already is taken back; it took the old before, so this does not fail again.
            let _ = self.try_lead(old);
        }
        done
    }
    fn try_lead(&mut self, config: &Config) -> Result<(), ToolError> {
        self.rules.replace(config)?;
        self.ways.as_mut().map_or(Ok(()), |ways| ways.lead(config))
    }
}

/// One change.
struct Change {
    new: Box<Config>,
    old: Box<Config>,
}

/// Has changes made, one at a time.
#[derive(Debug)]
pub(crate) struct Kernel {
    /// Whether SYNs are held until the far server has answered.
    pub(crate) holds_syns: bool,
    changes: Option<Sender<Change>>,
    done: Receiver<Result<(), ToolError>>,
    thread: Option<JoinHandle<Installed>>,
    /// Readable when a change was made or refused.
    pub(crate) bell: UnixStream,
}

impl Kernel {
    /// Hands what is installed to a thread.
    pub(crate) fn start(mut installed: Installed) -> io::Result<Self> {
        let (mut ring, bell) = UnixStream::pair()?;
        ring.set_nonblocking(true)?;
        bell.set_nonblocking(true)?;
        let holds_syns = installed.rules.holds_syns();
        let (changes, orders) = channel::<Change>();
        let (tell, done) = channel();
        let work = move || {
            for change in orders {
                let result = installed.lead(&change.new, &change.old);
                if tell.send(result).is_err() {
                    break;
                }
                // A bell that is full rings already.
                let _ = ring.write(&[1]);
            }
            installed
        };
        let thread = std::thread::Builder::new().name("kernel".into()).spawn(work)?;
        Ok(Self { holds_syns, changes: Some(changes), done, thread: Some(thread), bell })
    }
    /// Begins to route what `new` says in place of `old`. One change at a time: await the answer first.
    pub(crate) fn lead(&self, new: &Config, old: &Config) {
        if let Some(changes) = &self.changes {
            // Without the thread there is no answer, which `take` tells.
            let _ = changes.send(Change { new: Box::new(new.clone()), old: Box::new(old.clone()) });
        }
    }
    /// What became of the change, once that is known.
    pub(crate) fn take(&mut self) -> Option<Result<(), ToolError>> {
        while matches!(io::Read::read(&mut self.bell, &mut [0; 64]), Ok(n) if n > 0) {}
        match self.done.try_recv() {
            Ok(result) => Some(result),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => {
                panic!("the thread of the rules is gone: this is a bug, its panic message is above")
            }
        }
    }
    /// An orderly stop: everything is removed, what refuses new connections too.
    pub(crate) fn remove(mut self) {
        if let Some(installed) = self.end() {
            drop(installed.ways);
            installed.rules.remove();
        }
    }
    fn end(&mut self) -> Option<Installed> {
        self.changes.take();
        self.thread.take().and_then(|thread| thread.join().ok())
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        // Removes what is installed before the process ends.
        drop(self.end());
    }
}
