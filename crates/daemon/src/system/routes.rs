//! The kernel's routing table as the gateway's (`routing = "kernel"`), read on a thread of its own: a table of a thousand
//! routes delays no packet.

use crate::config::Config;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;
use wavelane_base::IpPrefix;
use wavelane_gateway::{NextHop, TABLE_MAX, Table};
use wavelane_host::routes::{KernelRoute, ROUTES_MAX, RouteWatch};

/// The two versions of IP are read one by one.
const _: () = assert!(2 * ROUTES_MAX <= TABLE_MAX, "a table that is read fits");

/// The table is read at most this often; changes in between count as one.
const READ_EVERY: Duration = Duration::from_millis(50);
/// A table that could not be read is read again after this long.
const AGAIN: Duration = Duration::from_secs(5);

/// Keeps reading the table.
#[derive(Debug)]
pub(crate) struct Routes {
    tables: Receiver<Result<Table, String>>,
    /// The peers' networks change with a reload.
    wanted: Sender<Vec<IpPrefix>>,
    /// Readable when there is news.
    pub(crate) bell: UnixStream,
    /// Ends the thread when it is dropped; a byte has it read again.
    poke: UnixStream,
}

/// The networks of all peers: no other route counts.
fn networks(config: &Config) -> Vec<IpPrefix> {
    config.peers.iter().flat_map(|peer| peer.routes.iter().copied()).collect()
}

/// The kernel's routes as the gateway gets them.
fn table(routes: Vec<KernelRoute>) -> Table {
    let mut table = Table::default();
    for route in routes {
        let hop = |hop: &Option<std::net::IpAddr>| hop.map_or(NextHop::OnLink, NextHop::Address);
        let hops: Vec<NextHop> = route.next_hops.iter().map(hop).collect();
        let added = table.add(route.prefix, &hops);
        debug_assert!(added, "the table has room for all that are read");
    }
    table
}

impl Routes {
    /// Reads the table for the first time and begins to watch it; nothing if the peers' order decides.
    pub(crate) fn start(config: &Config) -> io::Result<Option<(Self, Table)>> {
        let Some(number) = config.routing_table else { return Ok(None) };
        let watch = RouteWatch::open(number)?;
        let first = networks(config);
        let read = table(watch.read(&first)?);
        let (mut ring, bell) = UnixStream::pair()?;
        let (poke, poked) = UnixStream::pair()?;
        for end in [&ring, &bell, &poke, &poked] {
            end.set_nonblocking(true)?;
        }
        let (tell, tables) = channel();
        let (wanted, wishes) = channel();
        let mut watcher = Watcher { watch, poked, wishes, wanted: first };
        let work = move || {
            let mut again = false;
            while again || watcher.waits() {
                let read = watcher.read();
                let rest = if read.is_ok() { READ_EVERY } else { AGAIN };
                again = read.is_err();
                if tell.send(read).is_err() {
                    return;
                }
                // A bell that is full rings already.
                let _ = ring.write(&[1]);
                // Other networks are read at once.
                match watcher.wishes.recv_timeout(rest) {
                    Ok(wanted) => (watcher.wanted, again) = (wanted, true),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        };
        std::thread::Builder::new().name("routes".into()).spawn(work)?;
        Ok(Some((Self { tables, wanted, bell, poke }, read)))
    }

    /// The peers' networks have changed.
    pub(crate) fn arrange(&mut self, config: &Config) {
        // Without the thread there is nothing to tell.
        let _ = self.wanted.send(networks(config));
        let _ = self.poke.write(&[1]);
    }

    /// The newest table, if there is one since the last call, or why there is none.
    pub(crate) fn take(&mut self) -> Option<Result<Table, String>> {
        while matches!(self.bell.read(&mut [0; 64]), Ok(n) if n > 0) {}
        self.tables.try_iter().last()
    }
}

struct Watcher {
    watch: RouteWatch,
    poked: UnixStream,
    wishes: Receiver<Vec<IpPrefix>>,
    wanted: Vec<IpPrefix>,
}

impl Watcher {
    /// Waits for a change; `false` once the receiver is gone.
    fn waits(&mut self) -> bool {
        // The next read reports an error.
        self.watch.wait(self.poked.as_fd()).unwrap_or(false) || self.is_wanted()
    }
    fn read(&mut self) -> Result<Table, String> {
        if let Some(wanted) = self.wishes.try_iter().last() {
            self.wanted = wanted;
        }
        self.watch.read(&self.wanted).map(table).map_err(|e| e.to_string())
    }
    /// Whether the daemon is there. Takes its pokes.
    fn is_wanted(&mut self) -> bool {
        loop {
            match self.poked.read(&mut [0; 64]) {
                Ok(0) => return false,
                Ok(_) => {}
                Err(e) => return e.kind() == io::ErrorKind::WouldBlock,
            }
        }
    }
}
