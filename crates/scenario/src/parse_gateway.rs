//! Settings of single gateways: `[gateways.NAME]`.

use crate::error::ScenarioError;
use crate::model::{Backpressure, GatewayKnobs, Node, NodeKind, ProxySide, RadioLanes};
use crate::parse::word;
use crate::table::Value;
use crate::words::CONTROLS;
use crate::write::{text, unit};
use core::fmt::Write;
use wavelane_base::Quantity;
use wavelane_base::{Octets, Ratio};

/// Keys of `[gateways.NAME]` in files.
pub const GATEWAY_KEYS: &[&str] = &[
    "backpressure",
    "micro-blocks",
    "block",
    "rounds",
    "withhold",
    "radio",
    "overhear",
    "cache",
    "block-loss",
    "seal",
    "corruption",
    "buffer",
    "sides",
    "tries",
];

/// Smallest and largest block.
const BLOCK_MIN: Octets = Octets::new(4 << 10);
const BLOCK_MAX: Octets = Octets::new(64 << 20);

/// Smallest useful cache: two of the smallest blocks.
const CACHE_MIN: Octets = Octets::new(128 << 10);
/// Largest cache.
const CACHE_MAX: Octets = Octets::new(1 << 36);

/// Smallest and largest buffer of a proxy.
const BUFFER_MIN: Octets = Octets::new(1 << 10);
const BUFFER_MAX: Octets = Octets::new(1 << 30);
/// Most sides of a proxy.
const SIDES_MAX: usize = 64;
/// Keys of a side.
const SIDE_KEYS: &[&str] = &["nodes", "congestion", "tcp"];

/// The words for backpressure.
pub const BACKPRESSURES: &[(&str, Backpressure)] = &[
    ("adaptive", Backpressure::Adaptive),
    ("limit-1", Backpressure::One),
    ("limit-2", Backpressure::Two),
    ("off", Backpressure::Off),
];

/// The words for radio lanes.
pub(crate) const RADIOS: &[(&str, RadioLanes)] =
    &[("plain", RadioLanes::Plain), ("paced", RadioLanes::Paced), ("raw", RadioLanes::Raw)];

/// The words for sealing.
pub(crate) const SEALS: &[(&str, bool)] = &[("off", false), ("end-to-end", true)];

/// The words for how packets are sent again.
pub(crate) const TRIES: &[(&str, bool)] = &[("evidence", false), ("1998", true)];

/// Reads `[gateways.NAME]`.
pub(crate) fn knobs(nodes: &[Node], name: &str, value: &Value<'_>) -> Result<GatewayKnobs, ScenarioError> {
    let table = value.table("{ backpressure = \"limit-1\" }")?;
    table.only(GATEWAY_KEYS)?;
    if !nodes.iter().any(|node| node.name == name && node.kind == NodeKind::Gateway) {
        return Err(value.impossible(format!("[{}]: there is no gateway '{name}': name one of [nodes]", value.path)));
    }
    let mut knobs = GatewayKnobs::new(name);
    if let Some(value) = table.get("backpressure") {
        knobs.backpressure = Some(word(&value, "backpressure", BACKPRESSURES, "\"limit-1\"")?);
    }
    if let Some(value) = table.get("micro-blocks") {
        knobs.micro_blocks = value.bool()?;
    }
    if let Some(value) = table.get("block") {
        let block: Octets = value.quantity()?;
        if !(BLOCK_MIN..=BLOCK_MAX).contains(&block) {
            let (least, most) = (BLOCK_MIN.write(), BLOCK_MAX.write());
            let why = format!("{} = {} must lie between {least} and {most}", value.path, block.write());
            return Err(value.impossible(why));
        }
        knobs.block = Some(block);
    }
    if let Some(value) = table.get("rounds") {
        knobs.rounds = Some(value.bool()?);
    }
    if let Some(value) = table.get("withhold") {
        let most = value.whole()?;
        let fits = u8::try_from(most);
        let why = || value.impossible(format!("{} = {most} must lie between 0 (off) and 255", value.path));
        knobs.withhold = Some(fits.map_err(|_| why())?);
    }
    if let Some(value) = table.get("radio") {
        knobs.radio = Some(word(&value, "radio", RADIOS, "\"raw\"")?);
    }
    if let Some(value) = table.get("overhear") {
        knobs.overhear = value.bool()?;
    }
    if let Some(value) = table.get("cache") {
        let cache: Octets = value.quantity()?;
        if cache != Octets::ZERO && !(CACHE_MIN..=CACHE_MAX).contains(&cache) {
            let (least, most) = (CACHE_MIN.write(), CACHE_MAX.write());
            let why = format!("{} = {} must be 0 B, or lie between {least} and {most}", value.path, cache.write());
            return Err(value.impossible(why));
        }
        knobs.cache = Some(cache);
    }
    if let Some(p) = table.quantity("block-loss")? {
        knobs.block_loss = p;
    }
    if let Some(value) = table.get("seal") {
        knobs.seal = word(&value, "seal", SEALS, "\"end-to-end\"")?;
    }
    if let Some(p) = table.quantity("corruption")? {
        knobs.corruption = p;
    }
    if let Some(value) = table.get("buffer") {
        let buffer: Octets = value.quantity()?;
        if !(BUFFER_MIN..=BUFFER_MAX).contains(&buffer) {
            let (least, most) = (BUFFER_MIN.write(), BUFFER_MAX.write());
            let why = format!("{} = {} must lie between {least} and {most}", value.path, buffer.write());
            return Err(value.impossible(why));
        }
        knobs.buffer = Some(buffer);
    }
    if let Some(value) = table.get("tries") {
        knobs.tries_of_1998 = word(&value, "tries", TRIES, "\"1998\"")?;
    }
    if let Some(value) = table.get("sides") {
        let sides = value.list("a list of sides", "[{ nodes = [\"mobile\"], congestion = \"bbr\" }]")?;
        if sides.len() > SIDES_MAX {
            return Err(value.impossible(format!("{} has more than {SIDES_MAX} sides: join some", value.path)));
        }
        knobs.sides = sides.iter().map(|value| side(nodes, value)).collect::<Result<_, _>>()?;
    }
    Ok(knobs)
}

/// Reads one side of a proxy.
fn side(nodes: &[Node], value: &Value<'_>) -> Result<ProxySide, ScenarioError> {
    let table = value.table("{ nodes = [\"mobile\"], congestion = \"bbr\" }")?;
    table.only(SIDE_KEYS)?;
    let named = table.need("nodes", "[\"mobile\"]")?;
    let mut names = Vec::new();
    for name in named.list("a list of nodes", "[\"mobile\"]")? {
        let text = name.str("a node's name", "\"mobile\"")?;
        if !nodes.iter().any(|node| node.name == text) {
            return Err(name.impossible(format!("{}: there is no node '{text}': name one of [nodes]", name.path)));
        }
        names.push(text.to_owned());
    }
    let congestion =
        table.get("congestion").map(|v| word(&v, "congestion control", CONTROLS, "\"bbr\"")).transpose()?;
    let tcp = table.get("tcp").map(|value| crate::parse_tcp::knobs(&value)).transpose()?;
    Ok(ProxySide { nodes: names, congestion, tcp })
}

/// Writes one side, inline.
fn write_side(side: &ProxySide) -> String {
    let names: Vec<String> = side.nodes.iter().map(|name| text(name)).collect();
    let mut out = format!("{{ nodes = [{}]", names.join(", "));
    if let Some(kind) = side.congestion {
        let _ = write!(out, ", congestion = {}", text(kind.word()));
    }
    if let Some(tcp) = &side.tcp {
        let lines = crate::parse_tcp::lines(tcp);
        let _ = write!(out, ", tcp = {{ {} }}", lines.lines().collect::<Vec<_>>().join(", "));
    }
    out + " }"
}

/// Writes it.
pub(crate) fn write(knobs: &GatewayKnobs) -> String {
    let mut out = format!("\n[gateways.{}]\n", knobs.node);
    if let Some((word, _)) = BACKPRESSURES.iter().find(|(_, kind)| Some(*kind) == knobs.backpressure) {
        let _ = writeln!(out, "backpressure = {}", text(word));
    }
    if let Some(block) = &knobs.block {
        let _ = writeln!(out, "block = {}", unit(block));
    }
    if let Some(rounds) = knobs.rounds {
        let _ = writeln!(out, "rounds = {rounds}");
    }
    if let Some(withhold) = knobs.withhold {
        let _ = writeln!(out, "withhold = {withhold}");
    }
    if let Some((word, _)) = RADIOS.iter().find(|(_, lanes)| Some(*lanes) == knobs.radio) {
        let _ = writeln!(out, "radio = {}", text(word));
    }
    if knobs.overhear {
        let _ = writeln!(out, "overhear = true");
    }
    let _ = writeln!(out, "micro-blocks = {}\nblock-loss = {}", knobs.micro_blocks, unit(&knobs.block_loss));
    if let Some(cache) = &knobs.cache {
        let _ = writeln!(out, "cache = {}", unit(cache));
    }
    if knobs.seal {
        let _ = writeln!(out, "seal = {}", text("end-to-end"));
    }
    if knobs.corruption != Ratio::ZERO {
        let _ = writeln!(out, "corruption = {}", unit(&knobs.corruption));
    }
    if knobs.tries_of_1998 {
        let _ = writeln!(out, "tries = {}", text("1998"));
    }
    if let Some(buffer) = &knobs.buffer {
        let _ = writeln!(out, "buffer = {}", unit(buffer));
    }
    if !knobs.sides.is_empty() {
        let sides: Vec<String> = knobs.sides.iter().map(write_side).collect();
        let _ = writeln!(out, "sides = [{}]", sides.join(", "));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Scenario, TcpKind};
    use std::path::Path;
    use wavelane_base::Span;

    fn parse(section: &str) -> Result<Scenario, String> {
        let text = format!(
            "duration = \"1 s\"\nstacks = [\"wavelane\"]\nnodes = {{ a = \"gateway\", b = \"gateway\" }}\n\
             channels = {{ air = {{ preset = \"ethernet\", between = [\"a\", \"b\"] }} }}\n\
             flows = {{ page = {{ app = \"download\", from = \"a\", to = \"b\" }} }}\n{section}\n"
        );
        Scenario::parse(&text, Path::new(".")).map_err(|error| error.to_string())
    }

    #[test]
    fn how_packets_are_sent_again_is_read_and_written_back() {
        let text = "[gateways.a]\ntries = \"1998\"\n[gateways.b]\ntries = \"evidence\"";
        let scenario = parse(text).unwrap_or_else(|why| panic!("{why}"));
        assert!(scenario.gateways[0].tries_of_1998 && !scenario.gateways[1].tries_of_1998);
        let again = Scenario::parse(&scenario.to_toml(), Path::new(".")).unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(again.gateways, scenario.gateways);
        let refused = parse(&text.replace("1998", "1997")).expect_err("no such word");
        assert!(refused.contains("unknown tries '1997'; did you mean '1998'?"), "{refused}");
    }

    #[test]
    fn knobs_are_read_and_written_and_the_others_keep_their_defaults() {
        let text = "[gateways.b]\nbackpressure = \"limit-2\"\nmicro-blocks = false\nblock-loss = \"1/10\"\ncache = \"0 B\"\n\
             seal = \"end-to-end\"\ncorruption = \"1/100\"\nblock = \"1 MB\"\nrounds = true\nwithhold = 1\nradio = \"raw\"\noverhear = true\nbuffer = \"64 KiB\"\nsides = [{ nodes = [\"a\"], congestion = \"bbr\", tcp = { ack-every = 3, quick-acks = 0, rto-max = \"1 s\" } }, { nodes = [\"b\"] }]";
        let scenario = parse(text).expect("sound");
        let knobs = &scenario.gateways[0];
        assert_eq!(
            (knobs.node.as_str(), knobs.backpressure, knobs.micro_blocks),
            ("b", Some(Backpressure::Two), false)
        );
        let of_2009 = (knobs.block, knobs.rounds, knobs.withhold, knobs.radio);
        assert_eq!(of_2009, (Some(Octets::new(1_000_000)), Some(true), Some(1), Some(RadioLanes::Raw)));
        assert_eq!((knobs.cache, knobs.block_loss), (Some(Octets::ZERO), Ratio::new(1, 10).expect("a share")));
        assert_eq!((knobs.seal, knobs.overhear, knobs.corruption), (true, true, Ratio::new(1, 100).expect("a share")));
        assert_eq!((knobs.buffer, knobs.sides.len()), (Some(Octets::new(64 << 10)), 2));
        let tcp = knobs.sides[0].tcp.as_ref().expect("turned");
        let turned = (tcp.ack_every, tcp.quick_acks, tcp.rto_max, knobs.sides[0].congestion);
        assert_eq!(turned, (Some(3), Some(0), Some(Span::from_secs(1)), Some(TcpKind::Bbr)));
        assert_eq!(Scenario::parse(&scenario.to_toml(), Path::new(".")).as_ref(), Ok(&scenario));
        assert_eq!(parse("[gateways.a]").expect("sound").gateways, [GatewayKnobs::new("a")]);
    }

    #[test]
    fn impossible_values_are_refused() {
        for (section, why) in [
            ("[gateways.c]\nmicro-blocks = true", "no gateway 'c'"),
            ("[gateways.a]\ncache = \"1 kB\"", "0 B, or lie between 128 KiB"),
            ("[gateways.a]\nbackpressure = \"limit-3\"", "limit-"),
            ("[gateways.a]\nblock-loss = \"3/2\"", "block-loss"),
            ("[gateways.a]\nblock = \"1 kB\"", "between 4 KiB and 64 MiB"),
            ("[gateways.a]\nwithhold = 256", "between 0 (off) and 255"),
            ("[gateways.a]\nradio = \"udp\"", "raw"),
            ("[gateways.a]\nbuffer = \"1 B\"", "between 1 KiB and 1 GiB"),
            ("[gateways.a]\nsides = [{ nodes = [\"c\"] }]", "no node 'c'"),
            ("[gateways.a]\nsides = [{ congestion = \"bbr\" }]", "nodes"),
            ("[gateways.a]\nsides = [{ nodes = [\"b\"], tcp = { ack-every = 0 } }]", "lies outside 1"),
            ("[gateways.a]\nseal = true", "seal"),
            ("[gateways.a]\nseal = \"hop\"", "end-to-end"),
        ] {
            let error = parse(section).expect_err(section);
            assert!(error.contains(why), "{error}");
        }
    }
}
