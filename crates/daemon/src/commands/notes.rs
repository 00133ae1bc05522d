//! What `init` and `check` remark besides errors: where names lead, and what may have been overlooked.

use crate::config::{self, Config};
use crate::names;
use std::net::SocketAddr;

/// Where a peer is, its name looked up, and what is wrong with that.
pub(super) fn place(peer: &config::Peer, listen: SocketAddr) -> (String, Option<String>) {
    let Some(written) = &peer.address else { return ("(calls us)".into(), None) };
    if written.parse::<SocketAddr>().is_ok() {
        return (written.clone(), None);
    }
    match names::look_up(written) {
        Ok(found) => match names::usable(&found, listen).first() {
            Some(address) => (format!("{written} ({address})"), None),
            None => (
                written.clone(),
                Some(format!(
                    "'{written}' is only {found:?}, which `listen` cannot reach: listen on [::]:4780 for both IP versions"
                )),
            ),
        },
        Err(e) => {
            let remark = format!(
                "no address for '{written}' now ({e}): correct it, or write the number; wavelaned starts and goes on to ask"
            );
            (written.clone(), Some(remark))
        }
    }
}

/// What is in order, and perhaps not all that the operator wants.
pub(super) fn notes(config: &Config) -> Vec<String> {
    let everything =
        |peer: &config::Peer, six: bool| peer.routes.iter().any(|r| r.bits == 0 && r.address.is_ipv6() == six);
    let half = |peer: &&config::Peer| everything(peer, false) != everything(peer, true);
    let note = |peer: &config::Peer| {
        let (has, lacks, kind) =
            if everything(peer, false) { ("0.0.0.0/0", "::/0", "IPv6") } else { ("::/0", "0.0.0.0/0", "IPv4") };
        format!(
            "peer '{}' has the route {has} and not {lacks}: {kind} goes another way than by Wavelane; add {lacks} if that is not meant",
            peer.name
        )
    };
    config.peers.iter().filter(half).map(note).collect()
}
