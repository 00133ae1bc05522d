//! The flags of `wavelane init`: a lane in one word, and refusals that name the flag and no line of a file that nobody has.

use super::{CommandError, InitArgs};
use crate::config::ConfigError;
use std::net::IpAddr;
use wavelane_base::{IpPrefix, text};
use wavelane_gateway as gateway;
use wavelane_settings::{Directions, File, LANE, LaneTable};

/// A lane in one word.
pub(super) const LANE_WORD: &str = "[HOST:PORT][,device=NAME][,local=ADDRESS:PORT][,metered][,out|in]";
/// Addresses with their bits.
const SUCH: &str = "such as 10.9.0.1/24 or fd00:9::1/64";
/// Characters of a flag's value in a message.
const SHOWN: usize = 120;
/// Characters of such a message.
const SAID: usize = 2_000;

/// What the keys of a file are called as flags.
const KEYS: [(&str, &str); 16] = [
    ("gateway.listen", "--listen"),
    ("gateway.on_failure", "--on-failure"),
    ("gateway.source", "--source"),
    ("unknown on_failure", "--on-failure: unknown word"),
    ("unknown source", "--source: unknown word"),
    ("gateway.control", "--control"),
    ("gateway.key", "--key"),
    ("peer.public_key", "--peer-key"),
    ("tun.addresses", "--tun-address"),
    ("intercept.interfaces", "--interface"),
    ("forward.listen", "--forward"),
    ("forward.to", "--forward"),
    ("proxy.targets", "--route"),
    ("proxy.interfaces", "--interface"),
    ("proxy.on_failure", "--on-failure"),
    ("proxy.control", "--control"),
];

/// Why a file that these flags would make cannot be used, in their words.
pub(super) fn named(why: ConfigError, args: &InitArgs) -> CommandError {
    let said = match why {
        ConfigError::Value { key, what, .. } => format!("{key}: {what}"),
        ConfigError::Malformed { what, .. } => what,
        ConfigError::Gateway(why @ gateway::ConfigError::Lanes { .. }) => {
            return CommandError::Flag(format!("--lane: {why}"));
        }
        other => return other.into(),
    };
    // A lane's key begins with the line of its table.
    let said = match said.strip_prefix("line ").and_then(|rest| rest.split_once(": ")) {
        Some((_, rest)) => rest.to_owned(),
        None => said,
    };
    let of_peer = format!("peer '{}'", args.peer_name);
    let lanes = (1..).zip(&args.lanes).map(|(n, word)| (format!("{of_peer}, lane {n}"), lane_flag(word)));
    let keys = KEYS.iter().map(|(key, flag)| ((*key).to_owned(), (*flag).to_owned()));
    let keys = keys.chain([(format!("{of_peer}: address"), "--peer-address".into())]);
    let keys =
        keys.chain([(format!("{of_peer}: routes"), "--route".into()), (format!("{of_peer}: lane"), "--lane".into())]);
    // Lane 1 is not lane 10.
    let rest = |key: &str| said.strip_prefix(key).filter(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()));
    let found = lanes.chain(keys).find_map(|(key, flag)| Some(flag + rest(&key)?));
    // A value's line feed begins no line of its own here either.
    CommandError::Flag(text::line(&found.unwrap_or(said), SAID).into_owned())
}

/// A flag as it was given.
fn lane_flag(word: &str) -> String {
    format!("--lane '{}'", text::line(word, SHOWN))
}

/// The lines of a lane's table.
pub(super) fn lane_lines(word: &str) -> Result<Vec<String>, CommandError> {
    let refuse = |why: String| CommandError::Flag(format!("{}: {why}", lane_flag(word)));
    let table = lane(word).map_err(refuse)?;
    let usual = LANE.turned(File::Daemon, &LaneTable::default());
    let lines = LANE.turned(File::Daemon, &table).into_iter().filter(|line| !usual.contains(line));
    Ok(lines.map(|(key, value)| format!("{key} = {value}")).collect())
}

/// A lane's table from its word.
fn lane(word: &str) -> Result<LaneTable, String> {
    let mut table = LaneTable::default();
    for part in word.split(',').map(str::trim) {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        let text = |field: &mut Option<String>| match (value, field.replace(value.to_owned())) {
            ("", _) => Err(format!("nothing stands behind '{key}='")),
            (_, Some(_)) => Err(format!("'{key}' stands there twice")),
            _ => Ok(()),
        };
        match (key, part.contains('=')) {
            ("device", true) => text(&mut table.device)?,
            ("local", true) => text(&mut table.local)?,
            ("metered", false) => table.knobs.metered = true,
            ("out" | "in", false) if table.direction.is_some() => return Err("is one way twice".into()),
            ("out", false) => table.direction = Some(Directions::Out),
            ("in", false) => table.direction = Some(Directions::In),
            (place, false) if place.contains(':') && table.address.is_none() => table.address = Some(place.to_owned()),
            (place, false) if place.contains('.') => {
                let place = text::line(place, SHOWN);
                return Err(format!("'{place}' has no port: write HOST:PORT, such as {place}:4780"));
            }
            _ => return Err(format!("'{}' is none of its parts: write {LANE_WORD}", text::line(part, SHOWN))),
        }
    }
    if [&table.address, &table.device, &table.local].iter().all(|place| place.is_none()) {
        return Err(format!("says neither where it leads nor by what it goes: write {LANE_WORD}"));
    }
    Ok(table)
}

/// What is wrong with flags alone.
pub(super) fn check(args: &InitArgs) -> Result<(), CommandError> {
    if let Some(address) = args.peer_address.as_ref().filter(|_| !args.lanes.is_empty()) {
        return Err(CommandError::Flag(format!(
            "--peer-address stands beside --lane: make it a lane too, --lane {}",
            text::line(address, SHOWN)
        )));
    }
    for text in &args.tun_addresses {
        let shown = text::line(text, SHOWN);
        let refuse = |why: String| Err(CommandError::Flag(format!("--tun-address '{shown}' {why}")));
        let Ok(IpPrefix { address, bits }) = text.parse::<IpPrefix>() else {
            return refuse(format!("is not an address with its bits, {SUCH}"));
        };
        if bits == 0 {
            return refuse(format!(
                "takes all there is for its network: write this host's address with that network's bits, {SUCH}"
            ));
        }
        if names_network(address, bits) {
            return refuse(format!("is the network's own address: write this host's in it, {SUCH}"));
        }
        if names_all(address, bits) {
            return refuse(format!("is the broadcast address of its network: write this host's in it, {SUCH}"));
        }
    }
    Ok(())
}

/// Whether an address is that of its network and no host's: point-to-point networks have none (RFC 3021, RFC 6164).
fn names_network(address: IpAddr, bits: u8) -> bool {
    crate::config::first_of(IpPrefix { address, bits }) == address && crate::config::width(address) - bits > 1
}

/// Whether an address is that of all hosts in its network, which IPv4 alone has (RFC 919).
fn names_all(address: IpAddr, bits: u8) -> bool {
    matches!(address, IpAddr::V4(v4) if bits <= 30 && v4.to_bits() | u32::MAX >> bits == v4.to_bits())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn a_lanes_word_has_its_parts_in_any_order() {
        let lines = |word: &str| lane_lines(word).map_err(|why| why.to_string());
        for (word, wanted) in [
            ("192.0.2.7:4780", vec!["address = \"192.0.2.7:4780\""]),
            (
                "metered,device=wwan0,[2001:db8::7]:4780",
                vec!["address = \"[2001:db8::7]:4780\"", "device = \"wwan0\"", "metered = true"],
            ),
            ("local=198.51.100.1:4781,in", vec!["local = \"198.51.100.1:4781\"", "direction = \"in\""]),
            ("shore.example:4780,out", vec!["address = \"shore.example:4780\"", "direction = \"out\""]),
        ] {
            assert_eq!(lines(word).unwrap(), wanted, "{word}");
        }
        for (word, why) in [
            ("192.0.2.7", "has no port: write HOST:PORT, such as 192.0.2.7:4780"),
            ("", "is none of its parts"),
            ("out", "says neither where it leads nor by what it goes: write [HOST:PORT]"),
            ("metered,in", "says neither where it leads"),
            ("a:1,b:2", "'b:2' is none of its parts"),
            ("a:1,devise=x", "'devise=x' is none of its parts: write [HOST:PORT][,device=NAME]"),
            ("a:1,metered=true", "is none of its parts"),
            ("a:1,device=", "nothing stands behind 'device='"),
            ("device=a,device=b", "'device' stands there twice"),
            ("a:1,in,out", "one way twice"),
            ("a:1,\u{1b}[31m", "is none of its parts"),
        ] {
            let said = lines(word).unwrap_err();
            assert!(said.starts_with("--lane '") && said.contains(why) && !said.contains('\u{1b}'), "{word}: {said}");
        }
    }
}
