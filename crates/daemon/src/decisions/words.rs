//! Events and orders as a recording has them (`testing/decisions`), a line each.

use super::{Event, Of, Order, Reached};
use crate::config::{Config, prefix_text};
use crate::keys;
use crate::system::installed::Change;
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

/// An event in the log's words, for people; a recording has [`event`]'s, which are read again.
pub(crate) fn plain_event<S>(config: &Config, event: &Event<S>, name: impl Fn(&S) -> String) -> String {
    let peer = |place: usize| config.peers.get(place).map_or("?", |peer| &peer.name);
    let done = |what: &str, result: &Result<(), &String>| match result {
        Ok(()) => what.to_owned(),
        Err(why) => format!("{what}: that failed ({why})"),
    };
    match event {
        Event::Peer(place, Reached::Down) => format!("peer '{}' is silent for too long", peer(*place)),
        Event::Peer(place, Reached::Up) => format!("peer '{}' answers again", peer(*place)),
        Event::Syn { peer: place, syn, .. } => {
            format!("connection {} is wanted while peer '{}' is down", name(syn), peer(*place))
        }
        Event::Kernel(change, result) => {
            let what = match change {
                Change::Config => "the kernel takes the rules of the new configuration".to_owned(),
                Change::Down => "the kernel takes the rules for peers that are down".to_owned(),
                Change::Gone => "rules that another program took away are made anew".to_owned(),
                Change::Back(part) => {
                    format!("{}, taken away by another program, are put back", part.words("of [tun]").0)
                }
            };
            done(&what, &result.as_ref().copied())
        }
        Event::Asked(of, _) => match of {
            Of::File { confirm: None } => "a reload is asked for".into(),
            Of::File { confirm: Some(lasts) } => format!("a reload on trial for {lasts} is asked for"),
            Of::Former { .. } => "the configuration before the trial is to come back".into(),
            Of::Trial => "the configuration on trial is to stay".into(),
        },
        Event::Checked(result) => done("the configuration is looked at", &result.as_ref().map(drop)),
        Event::InForce(result) => done("the configuration comes into force", &result.as_ref().map(drop)),
        Event::Tick => "a time is over".into(),
    }
}

/// An order likewise; nothing of one that says a line of its own.
pub(crate) fn plain_order<S>(config: &Config, order: &Order<S>, name: impl Fn(&S) -> String) -> Option<String> {
    Some(match order {
        Order::Say(_) => return None,
        Order::Count(word) => format!("count it as {word}"),
        Order::GiveUp(place) => {
            let peer = config.peers.get(*place).map_or("?", |peer| &peer.name);
            format!("refuse what waits for peer '{peer}'")
        }
        Order::GiveBack(down) if down.is_empty() => "have the kernel forward no peer's networks plainly".into(),
        Order::GiveBack(down) => {
            let is_down = |peer: &&crate::config::Peer| down.contains(&peer.public_key);
            let names: Vec<String> =
                config.peers.iter().filter(is_down).map(|peer| format!("'{}'", peer.name)).collect();
            format!("have the kernel forward the networks of {} plainly", names.join(" and "))
        }
        Order::LetGo(syn) => format!("let the kernel forward {} plainly", name(syn)),
        Order::Discard(syn) => format!("drop the first packet of {}", name(syn)),
        Order::Refuse(syn) => format!("refuse {}", name(syn)),
        Order::Check(None) => "look at the file".into(),
        Order::Check(Some(_)) => "look at the configuration before the trial".into(),
        Order::Lead(_) => "have the kernel take its rules".into(),
        Order::PutInForce(_) => "put it in force".into(),
        Order::Tell(_, Ok(_)) => "tell who asked that it is done".into(),
        Order::Tell(_, Err(_)) => "tell who asked why not".into(),
    })
}
