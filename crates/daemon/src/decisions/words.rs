//! Events and orders as a recording has them (`testing/decisions`), a line each.

use super::{Event, Of, Order, Reached};
use crate::config::{Config, prefix_text};
use crate::keys;
use crate::system::rules;

/// Octets of a key's text that tell it from others.
pub(super) const KEY_SHOWN: usize = 8;

/// What of a configuration decides: `open` or `closed` if it intercepts, `keep` if it has rules without that, else `apart`; the device, and peers with their networks, such as `b@key=10.0.3.0/24`.
pub(crate) fn line(config: &Config) -> String {
    let how = match () {
        () if config.is_open() => "open",
        () if config.is_closed() => "closed",
        () if rules::needed(config) => "keep",
        () => "apart",
    };
    let peer = |peer: &crate::config::Peer| {
        let networks: Vec<String> = peer.routes.iter().map(prefix_text).collect();
        format!(" {}@{}={}", peer.name, &keys::to_base64(&peer.public_key)[..KEY_SHOWN], networks.join("+"))
    };
    let tun = config.tun.iter().map(|tun| format!(" tun:{}", tun.name));
    how.to_owned() + &tun.chain(config.peers.iter().map(peer)).collect::<String>()
}

fn outcome(result: Result<String, &String>) -> String {
    result.unwrap_or_else(|why| format!("refused: {}", why.replace('\n', " ")))
}

/// An event; `name` is what a SYN is called.
pub(crate) fn event<S>(config: &Config, event: &Event<S>, name: impl Fn(&S) -> String) -> String {
    let peer = |place: usize| config.peers.get(place).map_or("?", |peer| &peer.name);
    match event {
        Event::Peer(place, Reached::Down) => format!("down {}", peer(*place)),
        Event::Peer(place, Reached::Up) => format!("up {}", peer(*place)),
        Event::Syn { peer: place, target, held, syn } => {
            format!("syn {} {target} {}{}", peer(*place), name(syn), if *held { "" } else { " taken" })
        }
        Event::Kernel(change, result) => {
            format!("kernel {change:?} {}", outcome(result.as_ref().map(|()| "ok".into())))
        }
        Event::Asked(of, client) => {
            let of = match of {
                Of::File { confirm: None } => "file".into(),
                Of::File { confirm: Some(lasts) } => format!("confirm {lasts}"),
                Of::Former { .. } => "back".into(),
                Of::Trial => "keep".into(),
            };
            format!("asked {of}{}", client.map_or_else(String::new, |client| format!(" by {}", client.0)))
        }
        Event::Checked(result) => format!("checked {}", outcome(result.as_ref().map(|config| line(config)))),
        Event::InForce(Err(why)) => format!("in force, {}", outcome(Err(why))),
        Event::InForce(Ok(replaced)) => {
            let file = if replaced.is_files { " as the file has it" } else { "" };
            let warnings = replaced.warnings.iter().map(|text| format!(" warning: {}", text.replace('\n', " ")));
            format!("in force{file}{}", warnings.collect::<String>())
        }
        Event::Tick => "tick".into(),
    }
}

/// An order.
pub(crate) fn order<S>(config: &Config, order: &Order<S>, name: impl Fn(&S) -> String) -> String {
    let text = match order {
        Order::Say(text) => format!("say {text}"),
        Order::Count(word) => format!("count {word}"),
        Order::GiveUp(peer) => format!("give up peer {peer}"),
        Order::GiveBack(down) => {
            let named = |key: &[u8; keys::KEY_LEN]| {
                config.peers.iter().find(|peer| peer.public_key == *key).map_or("?", |peer| &peer.name)
            };
            format!("give back [{}]", down.iter().map(named).collect::<Vec<_>>().join(", "))
        }
        Order::LetGo(syn) => format!("let go {}", name(syn)),
        Order::Discard(syn) => format!("discard {}", name(syn)),
        Order::Refuse(syn) => format!("refuse {}", name(syn)),
        Order::Check(None) => "check the file".into(),
        Order::Check(Some(former)) => format!("check {}", line(former)),
        Order::Lead(config) => format!("lead {}", line(config)),
        Order::PutInForce(config) => format!("put in force {}", line(config)),
        Order::Tell(client, Ok(text)) => format!("tell {}: {text}", client.0),
        Order::Tell(client, Err(text)) => format!("tell {}, refused: {text}", client.0),
    };
    text.replace('\n', "\n    ")
}
