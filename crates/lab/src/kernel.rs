//! What of `[tcp]` a namespace's kernel can be told: settings of the namespace, and attributes of its routes.

use wavelane_host::netns::{Netns, NetnsError};
use wavelane_run::Treatment;
use wavelane_settings::{File, TCP, TcpKnobs};

/// A kernel gives half of a receive buffer to the window (`tcp_adv_win_scale`, tcp(7)); the rest is for its own bookkeeping.
const OF_BUFFER: u64 = 2;

/// The settings that the kernel is told as they are.
fn told(tcp: &TcpKnobs) -> TcpKnobs {
    let TcpKnobs { segment, rto_min, sack, timestamps, window_scale, .. } = *tcp;
    let ack_every = tcp.ack_every.filter(|every| (1..=2).contains(every));
    TcpKnobs { segment, ack_every, rto_min, sack, timestamps, window_scale, ..TcpKnobs::default() }
}

/// How `[tcp]` is treated; nothing if there is none.
pub(crate) fn treatment(tcp: &TcpKnobs) -> Option<Treatment> {
    if *tcp == TcpKnobs::default() {
        return None;
    }
    let told = TcpKnobs { window: tcp.window, ..told(tcp) };
    let known = TCP.turned(File::Scenario, &told);
    let rest: Vec<String> = TCP
        .turned(File::Scenario, tcp)
        .into_iter()
        .filter(|knob| !known.contains(knob))
        .map(|(key, _)| key.into_owned())
        .collect();
    Some(match (rest.is_empty(), tcp.window) {
        (true, None) => Treatment::Imposed,
        (true, Some(_)) => {
            Treatment::Approximated("`window` is half of the receive buffer, as near as the kernel keeps it".into())
        }
        (false, _) => Treatment::Approximated(format!("the kernel keeps its own {}", rest.join(", "))),
    })
}

/// Settings of a namespace.
pub(crate) fn settle(ns: &Netns, tcp: &TcpKnobs) -> Result<(), NetnsError> {
    let switches = [("timestamps", tcp.timestamps), ("sack", tcp.sack), ("window_scaling", tcp.window_scale)];
    for (name, on) in switches.into_iter().filter_map(|(name, on)| Some((name, on?))) {
        ns.sysctl(&format!("net/ipv4/tcp_{name}"), if on { "1" } else { "0" })?;
    }
    if let Some(window) = tcp.window {
        let buffer = window.get() * OF_BUFFER;
        ns.sysctl("net/ipv4/tcp_rmem", &format!("4096 {buffer} {buffer}"))?;
    }
    Ok(())
}

/// Attributes of a namespace's routes.
pub(crate) fn of_routes(tcp: &TcpKnobs) -> String {
    let mut words = String::new();
    if let Some(segment) = tcp.segment {
        words += &format!(" advmss {}", segment.get());
    }
    if let Some(least) = tcp.rto_min {
        words += &format!(" rto_min {}ms", least.as_millis().max(1));
    }
    if tcp.ack_every == Some(1) {
        words += " quickack 1";
    }
    words
}
