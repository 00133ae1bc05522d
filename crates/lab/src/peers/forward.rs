//! TCP ports forwarded from the gateway on the clients' side to servers behind the other one.

use super::{Site, order_of};
use crate::LabError;
use std::net::{Ipv4Addr, SocketAddr};
use wavelane_host::netns::Netns;
use wavelane_scenario::{Flow, Scenario};

/// Port at the near gateway of the first forwarded service; each further one uses the next port.
const LISTEN_PORT: u16 = 20_000;

/// One forwarded port.
pub(super) struct Forward {
    /// The gateway on the client's side.
    pub(super) near: usize,
    /// The other one.
    pub(super) far: usize,
    /// Where the clients connect.
    pub(super) listen: SocketAddr,
    /// Where the server listens.
    pub(super) target: SocketAddr,
}

/// The forwarded ports and their gateways.
pub(super) struct Forwards {
    pair: [usize; 2],
    list: Vec<Forward>,
}

impl Forwards {
    /// One per server and gateway on its clients' side. `peer` is for the error message about a flow that takes another path.
    pub(super) fn of(site: &Site<'_>, peer: &str, servers: &[SocketAddr]) -> Result<Self, LabError> {
        let mut list: Vec<Forward> = Vec::new();
        for (flow, target) in site.scenario.flows.iter().zip(servers) {
            let [near, far] = order_of(site.scenario, site.pair, flow).ok_or_else(|| {
                LabError::Topology(format!(
                    "flow {} does not cross both gateways, so {peer} cannot carry it",
                    flow.name
                ))
            })?;
            if list.iter().any(|f| f.near == near && f.target == *target) {
                continue;
            }
            let number = u16::try_from(list.len()).expect("FLOWS_MAX is 256");
            let listen = SocketAddr::from((site.inside(near), LISTEN_PORT + number));
            list.push(Forward { near, far, listen, target: *target });
        }
        Ok(Self { pair: site.pair, list })
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Forward> {
        self.list.iter()
    }

    /// Where the client of `flow` connects.
    pub(super) fn way_to(&self, scenario: &Scenario, flow: &Flow, server: SocketAddr) -> SocketAddr {
        let near = order_of(scenario, self.pair, flow).map(|[near, _]| near);
        let forward = self.list.iter().find(|f| Some(f.near) == near && f.target == server);
        forward.map_or(server, |f| f.listen)
    }
}

/// A socket that a program is expected to bind.
pub(super) struct Awaited {
    pub(super) node: usize,
    /// `tcp` or `udp`.
    pub(super) protocol: &'static str,
    pub(super) address: SocketAddr,
}

/// Whether all of `awaited` are bound.
pub(super) fn all_bound(site: &Site<'_>, awaited: &[Awaited]) -> Result<bool, LabError> {
    for one in awaited {
        if !is_bound(&site.world.nodes[one.node], one.protocol, one.address)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether a socket is bound to `address` inside `ns`, according to the kernel's table (proc(5), `/proc/net/tcp`).
fn is_bound(ns: &Netns, protocol: &str, address: SocketAddr) -> Result<bool, LabError> {
    let path = format!("/proc/thread-self/net/{protocol}");
    let table = ns.run(move || std::fs::read_to_string(path))?;
    let table = table.map_err(LabError::io("cannot read the table of sockets"))?;
    Ok(bound_in(&table, address))
}

/// Whether `table` lists a socket without a remote end at `address`.
fn bound_in(table: &str, address: SocketAddr) -> bool {
    /// A remote address of zero: listening, or not connected.
    const NOBODY: &str = "00000000:0000";
    let SocketAddr::V4(v4) = address else { return false };
    let wanted = format!("{}:{:04X}", hex(*v4.ip()), v4.port());
    table.lines().skip(1).any(|line| {
        let mut fields = line.split_whitespace().skip(1);
        fields.next() == Some(&wanted) && fields.next() == Some(NOBODY)
    })
}

/// An address as written in `/proc/net`: the octets as one number in host byte order.
fn hex(ip: Ipv4Addr) -> String {
    format!("{:08X}", u32::from_ne_bytes(ip.octets()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_socket_is_found_in_the_kernels_table() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
        let address = socket.local_addr().expect("it is bound");
        let table = std::fs::read_to_string("/proc/thread-self/net/tcp").expect("Linux has it");
        assert!(bound_in(&table, address), "{address} in {table}");
        let another = SocketAddr::from(([127, 0, 0, 9], address.port()));
        assert!(!bound_in(&table, another));
        drop(socket);
        let table = std::fs::read_to_string("/proc/thread-self/net/tcp").expect("Linux has it");
        assert!(!bound_in(&table, address));
    }
}
