//! Routers: nodes that hold nothing and know the routes to addresses.

use crate::node::{Moment, Outgoing, Resident};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use wavelane_wire::ip::Ipv4;

/// Forwards by host address; channels do the queueing.
pub(super) struct Router {
    pub(super) name: String,
    pub(super) ports: usize,
    pub(super) routes: BTreeMap<Ipv4Addr, usize>,
    pub(super) dropped: BTreeMap<&'static str, u64>,
}

impl Router {
    pub(super) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), ports: 0, routes: BTreeMap::new(), dropped: BTreeMap::new() }
    }

    /// The port a packet leaves by; never the one it came in by.
    fn choose(&mut self, came_by: usize, packet: &[u8]) -> Option<usize> {
        let (port, why) = match Ipv4::parse(packet) {
            Ok(ip) => (self.routes.get(&ip.target).copied().filter(|port| *port != came_by), "no_route"),
            Err(_) => (None, "damaged"),
        };
        if port.is_none() {
            *self.dropped.entry(why).or_default() += 1;
        }
        port
    }
}

impl Resident for Router {
    fn receive(&mut self, moment: &mut Moment<'_>, port: usize, packet: &mut Vec<u8>) {
        if let Some(to) = self.choose(port, packet) {
            moment.out.push(Outgoing::new(to, std::mem::take(packet)));
        }
    }
}
