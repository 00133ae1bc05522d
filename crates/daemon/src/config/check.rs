//! What is wrong with a configuration beyond its grammar, in one line each.

use super::{
    Config, ConfigError, Directions, Intercept, LOCK_SUFFIX, PEERS_MAX, PEERS_SUFFIX, SOCKET_PATH_MAX, Surroundings,
    prefix_text, value,
};
use crate::keys;
use std::net::IpAddr;
use std::path::PathBuf;
use wavelane_base::IpPrefix;
use wavelane_host::files::{DRAFT_SUFFIX, with_suffix};

impl Config {
    pub(super) fn check(&self, around: &Surroundings) -> Result<(), ConfigError> {
        self.check_paths(around)?;
        if self.control.as_os_str().len() > SOCKET_PATH_MAX {
            return Err(value(
                "gateway.control",
                format!("is longer than {SOCKET_PATH_MAX} bytes; use a shorter path"),
            ));
        }
        if self.peers.is_empty() && self.serial.is_none() {
            return Err(value("peer", "no peer is configured: add a [[peer]] table (wavelane init writes one)"));
        }
        if self.peers.len() > PEERS_MAX {
            return Err(value("peer", format!("at most {PEERS_MAX} peers, not {}", self.peers.len())));
        }
        for (i, p) in self.peers.iter().enumerate() {
            if self.peers[..i].iter().any(|q| q.name == p.name) {
                return Err(value("peer.name", format!("two peers are called '{}': rename one", p.name)));
            }
            let both = self.listen.is_ipv6() && self.listen.ip().is_unspecified();
            let number = p.address.as_ref().and_then(|a| a.parse::<std::net::SocketAddr>().ok());
            if number.is_some_and(|a| !both && a.is_ipv4() != self.listen.is_ipv4()) {
                return Err(value(
                    format!("peer '{}': address", p.name),
                    "is of another IP version than `listen`: listen on [::]:4780 for both",
                ));
            }
            if !p.lanes.is_empty() && p.lanes.iter().all(|lane| lane.ways == Directions::In) {
                return Err(value(
                    format!("peer '{}': lane", p.name),
                    "nothing leads to the peer: give one of its lanes direction \"out\" or \"both\"",
                ));
            }
            if p.public_key == keys::public_key(&self.private_key) {
                return Err(value(
                    "peer.public_key",
                    format!("peer '{}' has this gateway's own key: put the other gateway's public key there", p.name),
                ));
            }
        }
        self.check_lanes()?;
        if let Some(peer) = self.peers.iter().find(|p| self.routing_table.is_none() && !p.next_hops.is_empty()) {
            return Err(value(
                format!("peer '{}': next_hops", peer.name),
                "counts only with gateway.routing = \"kernel\": add that, or remove it",
            ));
        }
        if !self.seals() && !self.edges.is_empty() {
            return Err(value(
                "edge",
                "is used by sealed connections only: set gateway.seal = \"end-to-end\", or remove the tables",
            ));
        }
        if let Some(edge) = self.edges.iter().find(|edge| edge.public_key == keys::public_key(&self.private_key)) {
            return Err(value(
                "edge.public_key",
                format!("edge '{}' has this gateway's own key: put the other gateway's public key there", edge.name),
            ));
        }
        if let Some(i) = &self.intercept {
            self.check_intercept(i)?;
        }
        self.check_tun()?;
        Ok(())
    }

    /// Files that we write or make must be neither files that we read nor one another.
    fn check_paths(&self, around: &Surroundings) -> Result<(), ConfigError> {
        let made = self.made();
        for (at, (key, path)) in made.iter().enumerate() {
            if let Some(read) = self.reads.iter().find(|read| (around.is_same)(read, path)) {
                return Err(value(*key, format!("{} is read as well: name another path", read.display())));
            }
            if let Some((other, _)) =
                made[..at].iter().find(|(other, made)| other != key && (around.is_same)(made, path))
            {
                return Err(value(
                    *key,
                    format!("also writes {}, which is {other}: name another path", path.display()),
                ));
            }
        }
        Ok(())
    }

    /// What we write or make, and by which key.
    pub(crate) fn made(&self) -> [(&'static str, PathBuf); 6] {
        let addresses = with_suffix(&self.state, PEERS_SUFFIX);
        [
            ("gateway.control", self.control.clone()),
            ("gateway.state", self.state.clone()),
            ("gateway.state", with_suffix(&self.state, LOCK_SUFFIX)),
            ("gateway.state", with_suffix(&self.state, DRAFT_SUFFIX)),
            ("gateway.state", with_suffix(&addresses, DRAFT_SUFFIX)),
            ("gateway.state", addresses),
        ]
    }

    fn check_intercept(&self, i: &Intercept) -> Result<(), ConfigError> {
        if i.interfaces.is_empty() && !i.local {
            return Err(value(
                "intercept",
                "takes nothing: list `interfaces`, set `local = true`, or remove the table",
            ));
        }
        if let Some(wrong) = i.interfaces.iter().find(|n| !is_interface_name(n)) {
            return Err(value("intercept.interfaces", format!("'{wrong}' is not an interface name (see `ip link`)")));
        }
        if self.peers.iter().all(|p| p.routes.is_empty()) {
            return Err(value(
                "intercept",
                "no peer has `routes`, so nothing would be taken: list the far networks there",
            ));
        }
        Ok(())
    }

    fn check_tun(&self) -> Result<(), ConfigError> {
        let Some(tun) = &self.tun else {
            return match self.peers.iter().find(|p| !p.split) {
                Some(p) => Err(value(
                    format!("peer '{}': split", p.name),
                    "is false, but TCP that is not split goes through the TUN device: add a [tun] table",
                )),
                None => Ok(()),
            };
        };
        if !is_interface_name(&tun.name) {
            return Err(value("tun.name", format!("'{}' is not an interface name (see `ip link`)", tun.name)));
        }
        if self.intercept.is_none() {
            return Err(value(
                "tun",
                "no traffic is led to it: say which in an [intercept] table (`interfaces`, or `local = true`)",
            ));
        }
        if tun.addresses.len() > TUN_ADDRESSES_MAX {
            return Err(value("tun.addresses", format!("at most {TUN_ADDRESSES_MAX}, not {}", tun.addresses.len())));
        }
        if let Some(a) = tun.addresses.iter().find(|a| !is_host(a.address)) {
            return Err(value("tun.addresses", format!("{} cannot be a host's address", a.address)));
        }
        self.check_split()
    }

    /// The kernel's TPROXY rule has no longest-prefix match, so split and unsplit networks must not contain one another.
    fn check_split(&self) -> Result<(), ConfigError> {
        for whole in self.peers.iter().filter(|p| !p.split) {
            for parted in self.peers.iter().filter(|p| p.split) {
                let overlaps =
                    |a: &&IpPrefix| parted.routes.iter().any(|b| a.contains(b.address) || b.contains(a.address));
                if let Some(prefix) = whole.routes.iter().find(overlaps) {
                    return Err(value(
                        format!("peer '{}': routes", whole.name),
                        format!(
                            "{} is not split and overlaps a route of '{}', which is: separate the two, or give both the same `split`",
                            prefix_text(prefix),
                            parted.name
                        ),
                    ));
                }
            }
        }
        Ok(())
    }
}

/// Most own addresses of the TUN device.
const TUN_ADDRESSES_MAX: usize = 16;

fn is_host(address: IpAddr) -> bool {
    !(address.is_unspecified() || address.is_multicast() || address.is_loopback())
}

pub(crate) fn is_interface_name(name: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"._-@".contains(&b);
    (1..=15).contains(&name.len()) && name.bytes().all(fits) && name != "." && name != ".."
}
