//! Routers: nodes that hold nothing and know the routes to addresses.

use crate::node::{Moment, Outgoing, Resident};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use wavelane_wire::ip::{IPV4_HEADER_LEN, Ipv4};
use wavelane_wire::ipip::wrap;

/// Forwards by host address; channels do the queueing.
pub(super) struct Router {
    pub(super) name: String,
    pub(super) ports: usize,
    pub(super) routes: BTreeMap<Ipv4Addr, usize>,
    pub(super) dropped: BTreeMap<&'static str, u64>,
    /// By address: where from and to the tunnel leads that what comes for it takes.
    pub(super) tunnels: BTreeMap<Ipv4Addr, [Ipv4Addr; 2]>,
}

impl Router {
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ports: 0,
            routes: BTreeMap::new(),
            dropped: BTreeMap::new(),
            tunnels: BTreeMap::new(),
        }
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
        let target = Ipv4::parse(packet).ok().map(|ip| ip.target);
        // It may leave by the port it came in by.
        let mut came_by = port;
        if let Some(ends) = target.and_then(|target| self.tunnels.get(&target)) {
            let mut outer = vec![0; packet.len() + IPV4_HEADER_LEN];
            if wrap(packet, (ends[0], ends[1]), &mut outer).is_ok() {
                *packet = outer;
                came_by = usize::MAX;
            }
        }
        if let Some(to) = self.choose(came_by, packet) {
            moment.out.push(Outgoing::new(to, std::mem::take(packet)));
        }
    }
}
