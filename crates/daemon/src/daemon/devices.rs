//! The lanes' own sockets: opened and closed by reloads, and as their devices and local addresses come and go. A modem that is plugged
//! in again has its old name but a new index, and the kernel binds sockets to the index.

use super::lane::LanePort;
use super::{Daemon, TOKEN_LANES, Watch};
use crate::changes::Changes;
use crate::config::{Config, LaneSocket};
use crate::start::{self, StartError};
use crate::system::medium::Port;
use std::io;
use wavelane_base::{Instant, PortId, Span};
use wavelane_host::links::LinkChanges;
use wavelane_host::udp;

/// How often the devices are checked without an event from the kernel ...
const LOOK_EVERY: Span = Span::from_secs(1);
/// ... and how often at most with one.
const LOOK_AGAIN: Span = Span::from_millis(20);

/// The gateway's ports 1, 2, ...
#[derive(Debug)]
pub(super) struct Devices {
    ports: Vec<Option<Bound>>,
    /// The address of `listen` was not there at the start, and is not yet.
    pub(super) listen_missing: bool,
    next: Instant,
    looked: Instant,
    /// `None` if the kernel sends no events.
    pub(super) changes: Option<LinkChanges>,
}

#[derive(Clone, Debug)]
struct Bound {
    socket: LaneSocket,
    /// Index of its device when the socket was opened, or when that was last tried.
    index: Option<u64>,
    /// Why the system refused it, unless the device or the address was missing.
    refused: Option<String>,
    /// It was refused because somebody has its port: it may be a program that began before the old socket was closed, and holds that for a moment.
    taken: bool,
    /// Whether its device is set up, as far as that was logged.
    up: Changes,
}

impl Bound {
    fn new(now: Instant, socket: LaneSocket) -> Self {
        Self { index: socket.device_identity(), socket, refused: None, taken: false, up: Changes::new(now, true) }
    }
    /// The system refused its socket.
    fn refuse(&mut self, why: &io::Error) {
        self.refused = (!start::lacks_address(why)).then(|| why.to_string());
        self.taken = start::is_taken(why);
    }
    /// Whether what was refused may be had without a change of its device.
    fn may_be_free_later(&self) -> bool {
        self.taken || self.index.is_some() && self.socket.medium.device.may_be_free_later()
    }
    fn has_device(&self) -> bool {
        self.socket.device.is_none() || self.index.is_some()
    }
    /// Why it has no socket.
    fn absence(&self) -> String {
        match (&self.refused, &self.socket.device) {
            (Some(why), _) => format!("its socket is refused ({why})"),
            (None, Some(device)) if self.index.is_none() => format!("device {device} is not there"),
            (None, _) => format!("local address {} is not this machine's now", self.socket.local.ip()),
        }
    }
}

/// What a check of a port's device and address found.
enum Look {
    Same,
    /// The device was replaced or is gone.
    Device,
    /// The device or the port is refused, and may be free by now.
    Refused,
    /// The address is gone, or may be there again.
    Address,
}

/// The ports under another configuration.
pub(super) struct PortPlan {
    /// What each port is bound to.
    pub(super) sockets: Vec<Option<LaneSocket>>,
    /// New sockets by their place in that list; `None` if the device is not there yet, or the old socket is in the way.
    opened: Vec<(usize, Option<Port>)>,
}

impl Devices {
    pub(super) fn new(now: Instant, config: &Config) -> Self {
        let ports = config.lane_sockets().into_iter().map(|socket| Some(Bound::new(now, socket))).collect();
        let changes = LinkChanges::open().ok();
        Self { ports, listen_missing: false, next: now + LOOK_EVERY, looked: now, changes }
    }
    /// What the ports are bound to.
    pub(super) fn sockets(&self) -> Vec<Option<LaneSocket>> {
        self.ports.iter().map(|port| port.as_ref().map(|bound| bound.socket.clone())).collect()
    }
    /// Whether a port of the gateway is a serial line's.
    pub(super) fn is_line(&self, port: usize) -> bool {
        let bound = port.checked_sub(1).and_then(|place| self.ports.get(place)?.as_ref());
        bound.is_some_and(|bound| bound.socket.line.is_some())
    }
    /// When [`Daemon::look_at_devices`] has something to do.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let may_go = |socket: &LaneSocket| socket.device.is_some() || socket.own_address().is_some();
        let waits = |bound: &Bound| bound.taken || may_go(&bound.socket);
        let waits = self.listen_missing || self.ports.iter().flatten().any(waits);
        waits.then_some(self.next)
    }
    /// A device ended: looks at all of them as soon as may be.
    pub(super) fn look_soon(&mut self, now: Instant) {
        self.next = self.next.min(now.max(self.looked + LOOK_AGAIN));
    }
    /// Why port `port` of the gateway, which has no socket, has none.
    pub(super) fn absence(&self, port: usize) -> Option<String> {
        Some(self.ports.get(port.checked_sub(1)?)?.as_ref()?.absence())
    }
}

impl Daemon {
    /// Finds ports for the sockets of `config` and opens the new ones. A socket that stays keeps its port; the port of one that
    /// goes is not given to another, which would pass for the same path. With `in_any_case` a socket that is taken meanwhile is left for later: a
    /// trial's end must not fail by one lane.
    pub(super) fn plan_ports(&self, config: &Config, in_any_case: bool) -> Result<PortPlan, StartError> {
        let (before, wanted) = (self.devices.sockets(), config.lane_sockets());
        let stays = |socket: &Option<LaneSocket>| socket.clone().filter(|socket| wanted.contains(socket));
        let mut plan = PortPlan { sockets: before.iter().map(stays).collect(), opened: Vec::new() };
        for socket in wanted.iter().filter(|socket| !before.contains(&Some((*socket).clone()))) {
            let free = |i: &usize| plan.sockets[*i].is_none() && before.get(*i).is_none_or(Option::is_none);
            let place = (0..plan.sockets.len()).find(free).unwrap_or_else(|| {
                plan.sockets.push(None);
                plan.sockets.len() - 1
            });
            let going = before.iter().flatten().filter(|old| !wanted.contains(old));
            let in_the_way = going.clone().any(|old| {
                let same_port = old.local.port() == socket.local.port() && old.local.port() != 0;
                same_port || socket.line.is_some() && old.line.is_some() && old.device == socket.device
            });
            let opened = match start::open_lane_if_there(socket, self.mark) {
                Err(StartError::Busy { .. } | StartError::Device { .. }) if in_any_case => None,
                Err(StartError::Busy { .. }) if in_the_way => None,
                Err(StartError::Device { source, .. }) if in_the_way && start::is_taken(&source) => None,
                opened => opened?,
            };
            plan.sockets[place] = Some(socket.clone());
            plan.opened.push((place, opened));
        }
        Ok(plan)
    }
    /// The gateway uses these ports now: sockets no longer in use are closed.
    pub(super) fn set_ports(&mut self, plan: PortPlan) {
        self.lanes.resize_with(plan.sockets.len() + 1, || LanePort::new(None));
        self.devices.ports.resize(plan.sockets.len(), None);
        for (place, socket) in plan.sockets.iter().enumerate() {
            let bound = &mut self.devices.ports[place];
            if bound.as_ref().map(|bound| &bound.socket) != socket.as_ref() {
                *bound = socket.clone().map(|socket| Bound::new(self.now, socket));
                self.lanes[place + 1].replace(None);
                self.gateway.forget_heard_by(self.now, PortId((place + 1) as u16));
            }
        }
        for (place, medium) in plan.opened {
            // What was in the way is closed by now.
            let there = || self.devices.ports[place].clone();
            let opened = match (medium, there()) {
                (Some(medium), _) => self.watch_lane(place + 1, medium),
                (None, Some(bound)) if bound.has_device() => self.open_port(place + 1, &bound.socket),
                (None, _) => Ok(()),
            };
            match opened {
                // A missing address is in the warnings.
                Err(why) if start::lacks_address(&why) => {}
                Err(why) => {
                    let remedy = if start::is_taken(&why) { "it is tried again" } else { "restart the daemon" };
                    self.warn(&format!("a lane has no socket: {why}; {remedy}"));
                    if let Some(bound) = &mut self.devices.ports[place] {
                        bound.refuse(&why);
                    }
                }
                Ok(()) => {}
            }
        }
        (1..self.lanes.len()).for_each(|port| self.tell_port(port));
    }
    /// Says which lanes have no socket yet.
    pub(super) fn tell_ports(&mut self) {
        self.devices.listen_missing = self.lanes.first().is_some_and(|lane| lane.socket.is_none());
        (usize::from(!self.devices.listen_missing)..self.lanes.len()).for_each(|port| self.tell_port(port));
    }
    /// Opens the socket of `listen` if its address is there now.
    fn look_at_listen(&mut self) {
        if !self.devices.listen_missing {
            return;
        }
        let address = self.config.listen;
        let opened = start::listen(&self.config, self.mark).and_then(|medium| self.watch_lane(0, medium));
        match opened {
            Err(why) if start::lacks_address(&why) => return,
            Err(why) => {
                self.warn(&format!("{address} is there, but `listen` cannot use it: {why}; restart the daemon"))
            }
            Ok(()) => self.say(&format!("address {} is there: `listen` is used", address.ip())),
        }
        self.devices.listen_missing = false;
        self.tell_port(0);
    }
    fn tell_port(&mut self, port: usize) {
        let (there, full) = (self.lanes[port].socket.is_some(), self.lanes[port].is_full());
        self.gateway.set_port_there(self.now, PortId(port as u16), there);
        if full {
            self.gateway.set_port_room(self.now, PortId(port as u16), false);
        }
    }
    fn open_port(&mut self, port: usize, socket: &LaneSocket) -> io::Result<()> {
        let medium = (socket.medium.row().open)(socket, self.mark)?;
        self.watch_lane(port, medium)
    }
    fn watch_lane(&mut self, port: usize, medium: Port) -> io::Result<()> {
        self.poller.add(&medium, TOKEN_LANES + port as u64, Watch::Edges)?;
        self.lanes[port].replace(Some(medium));
        self.gateway.forget_heard_by(self.now, PortId(port as u16));
        Ok(())
    }

    /// The kernel reports a change of a device or an address.
    pub(super) fn links_changed(&mut self) {
        if let Some(changes) = &self.devices.changes {
            changes.drain();
        }
        self.devices.next = self.now.max(self.devices.looked + LOOK_AGAIN);
        self.look_at_devices();
        self.look_at_addresses();
    }
    /// Says that a device was set down or up.
    fn look_at_state(&mut self, place: usize) {
        let Some(bound) = &mut self.devices.ports[place] else { return };
        // A missing device is reported elsewhere.
        let Some(name) = bound.socket.device.clone() else { return };
        let Some(up) = bound.socket.medium.device.is_up(&name) else { return };
        if let Some(unsaid) = bound.up.turn(self.now, up) {
            let what = if up { "set up again" } else { "set down: its lane carries nothing until it is set up" };
            let said = format!("device '{name}' is {what}{}", Changes::unsaid(unsaid));
            if up { self.say(&said) } else { self.warn(&said) }
        }
    }
    /// Closes sockets whose device or address has gone, and reopens those whose device and address are there, or whose device was
    /// replaced by one of the same name.
    pub(super) fn look_at_devices(&mut self) {
        if self.devices.deadline().is_none_or(|at| at > self.now) {
            return;
        }
        self.devices.next = self.now + LOOK_EVERY;
        self.devices.looked = self.now;
        self.look_at_listen();
        for place in 0..self.devices.ports.len() {
            let port = place + 1;
            self.look_at_state(place);
            let there = self.lanes[port].socket.is_some();
            let gone = self.lanes[port].socket.as_ref().is_some_and(|socket| socket.is_gone());
            let Some(bound) = &mut self.devices.ports[place] else { continue };
            let index = bound.socket.device_identity();
            let look = match bound.socket.own_address() {
                // Tried once for each index: what is refused now would be refused in a second, too.
                _ if index != bound.index || gone => Look::Device,
                _ if !there && bound.may_be_free_later() => Look::Refused,
                Some(local) if there && !udp::is_own(local, bound.socket.device.as_deref()) => Look::Address,
                Some(_) if !there && bound.has_device() && bound.refused.is_none() => Look::Address,
                _ => Look::Same,
            };
            let said = bound.refused.clone();
            if !matches!(look, Look::Same) {
                bound.taken = false;
            }
            (bound.index, bound.refused) = match look {
                Look::Same => continue,
                Look::Device | Look::Refused => (index, None),
                Look::Address => (index, bound.refused.take()),
            };
            let bound = bound.clone();
            self.lanes[port].replace(None);
            self.gateway.forget_heard_by(self.now, PortId(port as u16));
            let opened = bound.has_device().then(|| self.open_port(port, &bound.socket));
            if let (Some(Err(why)), Some(bound)) = (&opened, &mut self.devices.ports[place]) {
                bound.refuse(why);
                if bound.refused.is_some() && bound.refused == said {
                    continue;
                }
            }
            self.tell_port(port);
            let works = matches!(opened, Some(Ok(())));
            if let Some(said) = port_news(&look, &bound.socket, opened, there) {
                if works { self.say(&said) } else { self.warn(&said) }
            }
        }
    }
}

/// What became of a lane's socket, in words; `None` if that is nothing new. `was_there` says whether there was one before.
fn port_news(look: &Look, socket: &LaneSocket, opened: Option<io::Result<()>>, was_there: bool) -> Option<String> {
    let what = match (look, &socket.device) {
        (Look::Device | Look::Refused, Some(name)) => format!("device '{name}'"),
        (Look::Refused, None) => format!("local port {}", socket.local),
        _ => format!("local address {}", socket.local.ip()),
    };
    Some(match opened {
        None => format!("{what} is gone: its lane carries nothing until it is back"),
        Some(Ok(())) => format!("{what} is there: its lane sends and hears by it"),
        Some(Err(why)) if start::lacks_address(&why) => {
            if !was_there && matches!(look, Look::Address) {
                return None;
            }
            format!("local address {} is not this machine's: its lane carries nothing until it is", socket.local.ip())
        }
        Some(Err(why)) if start::is_taken(&why) || socket.medium.device.may_be_free_later() => {
            let remedy = (socket.medium.row().remedy)(&why).unwrap_or("check it");
            format!("{what} is there, but its lane cannot use it yet: {why}; {remedy}")
        }
        Some(Err(why)) => format!("{what} is there, but its lane cannot use it: {why}; restart the daemon"),
    })
}
