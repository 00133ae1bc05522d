//! Recorded events are replayed, without a kernel: a recording in `testing/decisions` holds events with their seconds, each followed by what
//! was ordered. A recording that differs is shown as it would be now.
#![allow(clippy::unwrap_used, reason = "tests")]
use super::*;
use crate::config::{LaneMedium, Surroundings};
use crate::keys;
use std::path::{Path, PathBuf};
use wavelane_base::Quantity;

const AROUND: Surroundings = Surroundings {
    private_text: |_| Ok(keys::to_base64(&[1; 32])),
    is_same: |_, _| false,
    medium: LaneMedium::named,
    memory: || (wavelane_base::Octets::new(1 << 20), 64),
    control: |_| PathBuf::from("/run/a.sock"),
    state: |_, _| PathBuf::from("/run/a.epoch"),
};

/// A configuration in a line: `open`, `closed` or `apart`, perhaps `tun`, and peers with their networks, such as `b=10.0.3.0/24+10.0.4.0/24`.
pub(super) fn config(line: &str) -> Config {
    let mut text = "[gateway]\nname = \"a\"\nkey = \"a.key\"\n".to_owned();
    let mut rest = String::new();
    for word in line.split(' ') {
        match word.split_once('=') {
            Some((name, networks)) => {
                let key = keys::to_base64(&[name.as_bytes()[0]; 32]);
                let networks: Vec<String> =
                    networks.split('+').filter(|n| !n.is_empty()).map(|n| format!("\"{n}\"")).collect();
                rest += &format!(
                    "[[peer]]\nname = \"{name}\"\npublic_key = \"{key}\"\nroutes = [{}]\n",
                    networks.join(", ")
                );
            }
            None if word == "tun" => rest += "[tun]\n",
            None if word == "apart" => {}
            None => {
                text += &format!("on_failure = \"{word}\"\n");
                rest += "[intercept]\nlocal = true\n";
            }
        }
    }
    Config::read(&(text + &rest), "a.toml", Path::new("/etc"), &AROUND).unwrap()
}

fn place(config: &Config, name: &str) -> usize {
    config.peers.iter().position(|peer| peer.name == name).unwrap()
}

fn result(words: &str) -> Result<(), String> {
    words.strip_prefix("refused: ").map_or(Ok(()), |why| Err(why.into()))
}

/// An event by its words.
fn event(config: &Config, words: &str) -> Event<u32> {
    let (word, rest) = words.split_once(' ').unwrap_or((words, ""));
    match word {
        "down" => Event::Peer(place(config, rest), Reached::Down),
        "up" => Event::Peer(place(config, rest), Reached::Up),
        "syn" => {
            let words: Vec<&str> = rest.split(' ').collect();
            let held = words.get(3).is_none();
            Event::Syn {
                peer: place(config, words[0]),
                target: words[1].parse().unwrap(),
                held,
                syn: words[2].parse().unwrap(),
            }
        }
        "kernel" => {
            let (change, rest) = rest.split_once(' ').unwrap();
            let change = match change {
                "down" => Change::Down,
                "config" => Change::Config,
                "gone" => Change::Gone,
                "routes" => Change::Back(Part::Routes),
                _ => Change::Back(Part::PolicyRules),
            };
            Event::Kernel(change, result(rest))
        }
        "asked" => {
            let (of, client) = rest.split_once(" by ").map_or((rest, None), |(of, by)| (of, by.parse().ok()));
            let of = match of.split_once(' ') {
                None if of == "keep" => Of::Trial,
                None if of == "back" => Of::Former { asked: true },
                None => Of::File { confirm: None },
                Some((_, confirm)) => Of::File { confirm: Some(Span::parse(confirm).unwrap()) },
            };
            Event::Asked(of, client.map(ClientId))
        }
        "checked" if rest.starts_with("refused: ") => Event::Checked(result(rest).map(|()| unreachable!())),
        "checked" => Event::Checked(Ok(Box::new(self::config(rest)))),
        "tick" => Event::Tick,
        _ => panic!("no event: {words}"),
    }
}

fn words(order: &Order<u32>) -> String {
    match order {
        Order::Say(text) => format!("say {text}"),
        Order::Count(word) => format!("count {word}"),
        Order::GiveUp(peer) => format!("give up peer {peer}"),
        Order::GiveBack(down) => {
            let names: Vec<String> = down.iter().map(|key| char::from(key[0]).into()).collect();
            format!("give back [{}]", names.join(", "))
        }
        Order::LetGo(syn) => format!("let go {syn}"),
        Order::Discard(syn) => format!("discard {syn}"),
        Order::Refuse(syn) => format!("refuse {syn}"),
        Order::Check(None) => "check the file".into(),
        Order::Check(Some(former)) => format!("check the former of {} peers", former.peers.len()),
        Order::Lead(config) => format!("lead {} peers", config.peers.len()),
        Order::PutInForce(config) => format!("put in force {} peers", config.peers.len()),
        Order::Tell(client, Ok(text)) => format!("tell {}: {text}", client.0),
        Order::Tell(client, Err(text)) => format!("tell {}, refused: {text}", client.0),
    }
}

/// What a recording says, with the orders as they are now.
fn replay(recording: &str) -> String {
    let (mut out, mut config, mut decisions) = (String::new(), config("apart b="), Decisions::new(false, 1));
    let mut to_come: Option<Config> = None;
    for line in recording.lines() {
        if line.starts_with("    ") {
            continue;
        }
        out += &format!("{line}\n");
        if let Some(start) = line.strip_prefix("start ") {
            config = self::config(start);
            decisions = Decisions::new(config.intercept.is_some(), config.peers.len());
        }
        let Some((at, happened)) = line.split_once(' ').filter(|(at, _)| at.parse::<f64>().is_ok()) else { continue };
        let now = Instant::ZERO + Span::from_millis((at.parse::<f64>().unwrap() * 1e3) as u64);
        let event = match happened.strip_prefix("in force") {
            Some(refused) if refused.starts_with(", refused: ") => {
                Event::InForce(Err(refused.trim_start_matches(", refused: ").into()))
            }
            Some(how) => {
                let former = std::mem::replace(&mut config, to_come.take().unwrap());
                let warnings = how.split_once(" warning: ").map(|(_, text)| text.to_owned()).into_iter().collect();
                Event::InForce(Ok(Box::new(Replaced {
                    former,
                    is_files: how.contains("as the file has it"),
                    warnings,
                })))
            }
            None => event(&config, happened),
        };
        for order in decisions.take(now, &config, event) {
            out += &format!("    {}\n", words(&order).replace('\n', "\n    "));
            if let Order::PutInForce(config) = order {
                to_come = Some(*config);
            }
        }
    }
    out
}

fn replays(name: &str, recording: &str) {
    let now = replay(recording);
    assert!(now == recording, "testing/decisions/{name} would be now:\n{now}");
}

#[test]
fn peers_that_go_down_and_come_back_are_replayed() {
    replays("peers.txt", include_str!("../../../../testing/decisions/peers.txt"));
}

#[test]
fn rules_that_others_took_away_are_replayed() {
    replays("rules.txt", include_str!("../../../../testing/decisions/rules.txt"));
}

#[test]
fn reloads_and_trials_are_replayed() {
    replays("reloads.txt", include_str!("../../../../testing/decisions/reloads.txt"));
}

/// What waits for the kernel is bounded: what comes later is discarded, and its TCP sends it again.
#[test]
fn syns_that_wait_for_the_kernel_have_a_bound() {
    let config = config("open b=10.0.3.0/24");
    let mut decisions = Decisions::new(true, 1);
    let mut take = |words: &str| decisions.take(Instant::ZERO, &config, event(&config, words));
    assert!(matches!(take("down b")[..], [Order::Say(_), Order::GiveUp(0), Order::GiveBack(_)]));
    for n in 0..WAITING_MAX {
        assert!(matches!(take(&format!("syn b 10.0.3.7 {n}"))[..], [Order::Count("connections_passed")]));
    }
    assert!(matches!(take("syn b 10.0.3.7 9999")[..], [Order::Discard(9999)]));
    assert_eq!(take("kernel down ok").len(), WAITING_MAX);
}
