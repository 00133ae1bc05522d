//! Lanes' devices that go and come back: a modem that is plugged in again has its name back, but not its index, by which the
//! kernel knows what a socket is bound to.

use super::Daemon;
use crate::config::{Config, LaneSocket};
use crate::start;
use wavelane_base::{Instant, PortId, Span};
use wavelane_host::interface_index;

/// How often the devices are looked at.
const LOOK_EVERY: Span = Span::from_secs(1);

/// The devices that sockets are bound to.
#[derive(Debug)]
pub(super) struct Devices {
    bound: Vec<Bound>,
    next: Instant,
}

#[derive(Debug)]
struct Bound {
    port: usize,
    name: String,
    socket: LaneSocket,
    index: Option<u32>,
}

impl Devices {
    pub(super) fn new(now: Instant, config: &Config) -> Self {
        let of = |(i, socket): (usize, LaneSocket)| {
            let name = socket.device.clone()?;
            Some(Bound { port: i + 1, index: interface_index(&name), name, socket })
        };
        let bound = config.lane_sockets().into_iter().enumerate().filter_map(of).collect();
        Self { bound, next: now + LOOK_EVERY }
    }
    /// When [`Daemon::look_at_devices`] has something to do.
    pub(super) fn deadline(&self) -> Option<Instant> {
        (!self.bound.is_empty()).then_some(self.next)
    }
}

impl Daemon {
    /// Opens the sockets again whose device is another one of the same name.
    pub(super) fn look_at_devices(&mut self) {
        if self.devices.deadline().is_none_or(|at| at > self.now) {
            return;
        }
        self.devices.next = self.now + LOOK_EVERY;
        for i in 0..self.devices.bound.len() {
            let Bound { port, name, socket, index } = &self.devices.bound[i];
            let found = interface_index(name);
            if found.is_none() || found == *index {
                continue;
            }
            let (port, name) = (*port, name.clone());
            let opened = start::open_lane(socket, self.mark).and_then(|medium| {
                self.poller.add(&medium, super::TOKEN_LANES + port as u64, super::Watch::Edges)?;
                Ok(medium)
            });
            // Tried once for each index: what is refused now is refused in a second.
            self.devices.bound[i].index = found;
            match opened {
                Ok(medium) => {
                    self.lanes[port].replace(medium);
                    self.gateway.set_port_room(self.now, PortId(port as u16), true);
                    self.say(&format!("device '{name}' is back: its lane sends and hears by it again"));
                }
                Err(why) => {
                    self.say(&format!("device '{name}' is back, but its lane cannot use it: {why}; restart the daemon"))
                }
            }
        }
    }
}
