//! Recorded events are replayed, without a kernel. A recording holds events with their seconds, each followed by what was ordered
//! (`testing/decisions`, and what `wavelaned --decisions` wrote); lines between are remarks.

use super::{Decisions, Event, Of, Order, Reached, Replaced, words};
use crate::config::{Config, LaneMedium, Surroundings};
use crate::control::ClientId;
use crate::keys;
use crate::system::installed::Change;
use crate::system::part::Part;
use crate::system::rules;
use std::path::{Path, PathBuf};
use wavelane_base::{Instant, Octets, Quantity, Span};

/// A machine that is not asked: nothing of it decides.
const AROUND: Surroundings = Surroundings {
    private_text: |_| Ok(keys::to_base64(&[1; 32])),
    is_same: |_, _| false,
    medium: LaneMedium::named,
    memory: || (Octets::new(1 << 20), 64),
    control: |_| PathBuf::from("/run/a.sock"),
    state: |_, _| PathBuf::from("/run/a.epoch"),
};

/// A configuration by its line ([`words::line`]). A peer without a key has its name for one.
pub(super) fn config(line: &str) -> Option<Config> {
    let mut text = "[gateway]\nname = \"a\"\nkey = \"a.key\"\n".to_owned();
    let mut rest = String::new();
    for word in line.split(' ') {
        match (word.split_once('='), word.strip_prefix("tun:")) {
            (Some((name, networks)), _) => {
                let mut octets = name.bytes().cycle();
                let (name, key) = match name.split_once('@') {
                    // What is shown of a key is how this one begins.
                    Some((name, shown)) if shown.len() == words::KEY_SHOWN => {
                        (name, format!("{shown}{}", &keys::to_base64(&[0; keys::KEY_LEN])[shown.len()..]))
                    }
                    Some(_) => return None,
                    None => (name, keys::to_base64(&[0; keys::KEY_LEN].map(|_| octets.next().unwrap_or_default()))),
                };
                let networks: Vec<&str> = networks.split('+').filter(|network| !network.is_empty()).collect();
                rest += &format!("[[peer]]\nname = {name:?}\npublic_key = \"{key}\"\nroutes = {networks:?}\n");
            }
            (None, Some(device)) => rest += &format!("[tun]\nname = {device:?}\n"),
            (None, None) if word == "apart" => {}
            (None, None) if word == "keep" => text += "source = \"keep\"\n",
            (None, None) => {
                text += &format!("on_failure = {word:?}\n");
                rest += "[intercept]\nlocal = true\n";
            }
        }
    }
    Config::read(&(text + &rest), "a.toml", Path::new("/etc"), &AROUND).ok()
}

/// An event by its words ([`words::event`]). `config` is in force, and `to_come` is what is to be.
pub(super) fn event(config: &mut Config, to_come: &mut Option<Config>, words: &str) -> Option<Event<String>> {
    let place = |name: &str| config.peers.iter().position(|peer| peer.name == name);
    let (word, rest) = words.split_once(' ').unwrap_or((words, ""));
    Some(match word {
        "down" => Event::Peer(place(rest)?, Reached::Down),
        "up" => Event::Peer(place(rest)?, Reached::Up),
        "syn" => {
            let words: Vec<&str> = rest.split(' ').collect();
            let [peer, target, syn, taken @ ..] = &words[..] else { return None };
            Event::Syn { peer: place(peer)?, target: target.parse().ok()?, held: taken.is_empty(), syn: (*syn).into() }
        }
        "kernel" => {
            let (change, rest) = rest.split_once(' ')?;
            let mut all = [Change::Down, Change::Config, Change::Gone].into_iter().chain(Part::ALL.map(Change::Back));
            let result = rest.strip_prefix("refused: ").map_or(Ok(()), |why| Err(why.into()));
            Event::Kernel(all.find(|of| format!("{of:?}") == change)?, result)
        }
        "asked" => {
            let (of, client) = rest.split_once(" by ").map_or((rest, None), |(of, by)| (of, by.parse().ok()));
            let of = match of.split_once(' ') {
                None if of == "keep" => Of::Trial,
                None if of == "back" => Of::Former { asked: true },
                None => Of::File { confirm: None },
                Some((_, confirm)) => Of::File { confirm: Some(Span::parse(confirm).ok()?) },
            };
            Event::Asked(of, client.map(ClientId))
        }
        "checked" => Event::Checked(match rest.strip_prefix("refused: ") {
            Some(why) => Err(why.into()),
            None => Ok(Box::new(self::config(rest)?)),
        }),
        "in" => Event::InForce(match rest.strip_prefix("force, refused: ") {
            Some(why) => Err(why.into()),
            None => {
                let former = std::mem::replace(config, to_come.take()?);
                let warnings = rest.split(" warning: ").skip(1).map(str::to_owned).collect();
                Ok(Box::new(Replaced { former, is_files: rest.contains("as the file has it"), warnings }))
            }
        }),
        "tick" => Event::Tick,
        _ => return None,
    })
}

/// What a recording says, with the orders as they are now; or the line that says nothing that can have happened.
pub fn replay(recording: &str) -> Result<String, String> {
    let (mut out, mut running, mut to_come) = (String::new(), None, None);
    for line in recording.lines().filter(|line| !line.starts_with("    ")) {
        out += &format!("{line}\n");
        if let Some(start) = line.strip_prefix("start ") {
            let config = config(start).ok_or(line)?;
            running = Some((Decisions::new(rules::needed(&config), config.peers.len()), config));
        }
        let Some((at, happened)) = line.split_once(' ') else { continue };
        let (Ok(at), Some((decisions, config))) = (at.parse::<f64>(), &mut running) else { continue };
        let now = Instant::ZERO + Span::from_nanos((at * 1e9).round() as u64);
        let event = event(config, &mut to_come, happened).ok_or(line)?;
        for order in decisions.take(now, config, event) {
            out += &format!("    {}\n", words::order(config, &order, String::clone));
            if let Order::PutInForce(config) = order {
                to_come = Some(*config);
            }
        }
    }
    Ok(out)
}
