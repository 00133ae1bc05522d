//! kcptun: TCP carried by KCP over UDP with fixed Reed-Solomon redundancy, one pair of programs per forwarded port.
//!
//! Both ends get the same settings, as the program demands. Compression is off (the bodies are random) and the cipher
//! is AES-128, the cheapest that its documentation calls safe; all that is not named is the program's default.

use super::{Site, order_of, wait_for};
use crate::LabError;
use crate::program::Program;
use crate::tools;
use std::net::{Ipv4Addr, SocketAddr};
use wavelane_base::Span;
use wavelane_host::netns::Netns;
use wavelane_scenario::{Flow, Scenario};

const REMEDY: &str = "install kcptun (apt install kcptun)";
/// What must be installed, and how.
pub(super) const PROGRAMS: &[(&str, &str)] = &[("kcptun-server", REMEDY), ("kcptun-client", REMEDY)];
/// The default profile and windows.
pub(super) const DEFAULT: &[&str] = &["--mode", "fast"];
/// The most aggressive profile, with windows that fill 20 Mbit/s over 100 ms five times.
pub(super) const FAST3: &[&str] = &["--mode", "fast3", "--sndwnd", "1024", "--rcvwnd", "1024"];
/// Settings that both ends must share.
const COMMON: &[&str] =
    &["--key", "wavelane laboratory", "--crypt", "aes-128", "--nocomp", "--smuxver", "2", "--quiet"];
/// UDP port of the first forwarded service; each further one on the next.
const KCP_PORT: u16 = 30_000;
/// TCP port at the near gateway of the first forwarded service.
const LISTEN_PORT: u16 = 20_000;
/// How long all programs may take until they listen: deriving the key alone takes a second.
const READY_WITHIN: Span = Span::from_secs(20);

/// One forwarded port.
struct Forward {
    /// The gateway the client meets.
    near: usize,
    /// Where the clients connect.
    listen: SocketAddr,
    /// Where the server listens.
    target: SocketAddr,
}

/// The running forwards.
pub(super) struct Kcptun {
    pair: [usize; 2],
    forwards: Vec<Forward>,
}

impl Kcptun {
    /// Starts a pair of programs per server and direction.
    pub(super) fn start(
        site: &Site<'_>,
        profile: &[&str],
        servers: &[SocketAddr],
        programs: &mut Vec<Program>,
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<Self, LabError> {
        let mut forwards: Vec<Forward> = Vec::new();
        let mut awaited = Vec::new();
        for (flow, target) in site.scenario.flows.iter().zip(servers) {
            let [near, far] = order_of(site.scenario, site.pair, flow).ok_or_else(|| {
                LabError::Topology(format!(
                    "flow {} does not cross both gateways, so kcptun cannot carry it",
                    flow.name
                ))
            })?;
            if forwards.iter().any(|f| f.near == near && f.target == *target) {
                continue;
            }
            let number = u16::try_from(forwards.len()).expect("FLOWS_MAX is 256");
            let inside = site.world.plan.address_of(near).expect("a gateway has a channel");
            let listen = SocketAddr::from((inside, LISTEN_PORT + number));
            let outside = SocketAddr::from((site.outside(far), KCP_PORT + number));
            let mut server = tools::command("kcptun-server");
            server.args(["--listen", &outside.to_string(), "--target", &target.to_string()]);
            programs.push(site.start(far, &format!("kcptun-server-{number}"), with(server, profile), REMEDY)?);
            awaited.push((far, "udp", outside));
            let mut client = tools::command("kcptun-client");
            client.args(["--localaddr", &listen.to_string(), "--remoteaddr", &outside.to_string()]);
            programs.push(site.start(near, &format!("kcptun-client-{number}"), with(client, profile), REMEDY)?);
            awaited.push((near, "tcp", listen));
            forwards.push(Forward { near, listen, target: *target });
        }
        wait_for("kcptun did not listen", READY_WITHIN, programs, stop, &mut || {
            for (node, protocol, address) in &awaited {
                if !is_bound(&site.world.nodes[*node], protocol, *address)? {
                    return Ok(false);
                }
            }
            Ok(true)
        })?;
        Ok(Self { pair: site.pair, forwards })
    }

    /// Where the client of `flow` connects.
    pub(super) fn way_to(&self, scenario: &Scenario, flow: &Flow, server: SocketAddr) -> SocketAddr {
        let near = order_of(scenario, self.pair, flow).map(|[near, _]| near);
        let forward = self.forwards.iter().find(|f| Some(f.near) == near && f.target == server);
        forward.map_or(server, |f| f.listen)
    }
}

fn with(mut command: std::process::Command, profile: &[&str]) -> std::process::Command {
    command.args(COMMON).args(profile);
    command
}

/// Whether a socket is bound to `address` inside `ns`, by the kernel's own table (proc(5), `/proc/net/tcp`).
fn is_bound(ns: &Netns, protocol: &str, address: SocketAddr) -> Result<bool, LabError> {
    let path = format!("/proc/thread-self/net/{protocol}");
    let table = ns.run(move || std::fs::read_to_string(path))?;
    let table = table.map_err(LabError::io("cannot read the table of sockets"))?;
    Ok(bound_in(&table, address))
}

/// Whether `table` lists a socket without a remote end at `address`.
fn bound_in(table: &str, address: SocketAddr) -> bool {
    /// A remote end of zero: listening, or not connected.
    const NOBODY: &str = "00000000:0000";
    let SocketAddr::V4(v4) = address else { return false };
    let wanted = format!("{}:{:04X}", hex(*v4.ip()), v4.port());
    table.lines().skip(1).any(|line| {
        let mut fields = line.split_whitespace().skip(1);
        fields.next() == Some(&wanted) && fields.next() == Some(NOBODY)
    })
}

/// An address as `/proc/net` writes it: the octets as one number of the machine's own order.
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
