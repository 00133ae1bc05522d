//! Settings of single gateways: `[gateways.NAME]`.

use crate::model::{GatewaySettings, Node, NodeKind, ProxySide};
use crate::words::CONTROLS;
use crate::write::text;
use crate::{ScenarioError, Value, word};
use core::fmt::Write;
use wavelane_settings::{Bounds, File, Freeze, GATEWAY, Setting, TCP};

/// Most sides of a proxy.
const SIDES_MAX: usize = 64;
/// Keys of a side.
const SIDE_KEYS: &[&str] = &["nodes", "congestion", "freeze", "tcp"];

/// Reads `[gateways.NAME]`.
pub(crate) fn settings(nodes: &[Node], name: &str, value: &Value<'_>) -> Result<GatewaySettings, ScenarioError> {
    let table = value.table("{ backpressure = \"limit-1\" }")?;
    let mut keys = GATEWAY.keys(File::Scenario);
    keys.push("sides".into());
    table.only(&keys)?;
    if !nodes.iter().any(|node| node.name == name && node.kind == NodeKind::Gateway) {
        return Err(value.impossible(format!("[{}]: there is no gateway '{name}': name one of [nodes]", value.path)));
    }
    let mut sides = Vec::new();
    if let Some(value) = table.get("sides") {
        let list = value.list("a list of sides", "[{ nodes = [\"mobile\"], congestion = \"bbr\" }]")?;
        if list.len() > SIDES_MAX {
            return Err(value.impossible(format!("{} has more than {SIDES_MAX} sides: join some", value.path)));
        }
        sides = list.iter().map(|value| side(nodes, value)).collect::<Result<_, _>>()?;
    }
    Ok(GatewaySettings { node: name.to_owned(), knobs: GATEWAY.read(File::Scenario, &table)?, sides })
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
    let freeze = table.get("freeze").map(|value| Freeze::read(&value, &Bounds::NONE)).transpose()?;
    let tcp = table.get("tcp").map(|value| crate::parse_tcp::knobs(&value)).transpose()?;
    Ok(ProxySide { nodes: names, congestion, freeze, tcp })
}

/// Writes one side, inline.
fn write_side(side: &ProxySide) -> String {
    let names: Vec<String> = side.nodes.iter().map(|name| text(name)).collect();
    let mut out = format!("{{ nodes = [{}]", names.join(", "));
    if let Some(kind) = side.congestion {
        let _ = write!(out, ", congestion = {}", text(kind.word()));
    }
    if let Some(freeze) = &side.freeze {
        let _ = write!(out, ", freeze = {}", freeze.toml());
    }
    if let Some(tcp) = &side.tcp {
        let turned = TCP.turned(File::Scenario, tcp);
        let turned: Vec<String> = turned.iter().map(|(key, value)| format!("{key} = {value}")).collect();
        let _ = write!(out, ", tcp = {{ {} }}", turned.join(", "));
    }
    out + " }"
}

/// Writes it.
pub(crate) fn write(settings: &GatewaySettings) -> String {
    let mut out = format!("\n[gateways.{}]\n{}", settings.node, GATEWAY.write(File::Scenario, &settings.knobs));
    if !settings.sides.is_empty() {
        let sides: Vec<String> = settings.sides.iter().map(write_side).collect();
        let _ = writeln!(out, "sides = [{}]", sides.join(", "));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Scenario, TcpKind};
    use std::path::Path;
    use wavelane_base::{Octets, Ratio, Span};
    use wavelane_settings::{Backpressure, GatewayKnobs, RadioLanes, Seal, SentAgain};

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
        let tries = |at: usize| scenario.gateways[at].knobs.tries;
        assert_eq!((tries(0), tries(1)), (Some(SentAgain::Of1998), Some(SentAgain::Evidence)));
        let again = Scenario::parse(&scenario.to_toml(), Path::new(".")).unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(again.gateways, scenario.gateways);
        let refused = parse(&text.replace("1998", "1997")).expect_err("no such word");
        assert!(refused.contains("unknown tries '1997'; did you mean '1998'?"), "{refused}");
    }

    #[test]
    fn knobs_are_read_and_written_and_the_others_keep_their_defaults() {
        let text = "[gateways.b]\nbackpressure = \"limit-2\"\nmicro-blocks = false\nblock-loss = \"1/10\"\ncache = \"0 B\"\n\
             seal = \"end-to-end\"\ncorruption = \"1/100\"\nblock = \"1 MB\"\nrounds = true\nwithhold = 1\nradio = \"raw\"\noverhear = true\nbuffer = \"64 KiB\"\nsides = [{ nodes = [\"a\"], congestion = \"bbr\", freeze = \"three\", tcp = { ack-every = 3, quick-acks = 0, rto-max = \"1 s\" } }, { nodes = [\"b\"] }]";
        let scenario = parse(text).expect("sound");
        let GatewaySettings { node, knobs, sides } = &scenario.gateways[0];
        let first = (node.as_str(), knobs.backpressure, knobs.micro_blocks);
        assert_eq!(first, ("b", Some(Backpressure::Blocks(2)), Some(false)));
        let of_2009 = (knobs.block, knobs.rounds, knobs.withhold, knobs.radio);
        assert_eq!(of_2009, (Some(Octets::new(1_000_000)), Some(true), Some(1), Some(RadioLanes::Raw)));
        assert_eq!((knobs.cache, knobs.block_loss), (Some(Octets::ZERO), Ratio::new(1, 10)));
        assert_eq!((knobs.seal, knobs.overhear), (Some(Seal::EndToEnd), Some(true)));
        assert_eq!(knobs.corruption, Ratio::new(1, 100));
        assert_eq!((knobs.buffer, sides.len()), (Some(Octets::new(64 << 10)), 2));
        let tcp = sides[0].tcp.as_ref().expect("turned");
        let turned = (tcp.ack_every, tcp.quick_acks, tcp.rto_max, sides[0].congestion);
        assert_eq!(turned, (Some(3), Some(0), Some(Span::from_secs(1)), Some(TcpKind::Bbr)));
        assert_eq!(sides[0].freeze, Some(Freeze::Three));
        assert_eq!(Scenario::parse(&scenario.to_toml(), Path::new(".")).as_ref(), Ok(&scenario));
        assert_eq!(parse("[gateways.a]").expect("sound").gateways[0].knobs, GatewayKnobs::default());
    }

    #[test]
    fn impossible_values_are_refused() {
        for (section, why) in [
            ("[gateways.c]\nmicro-blocks = true", "no gateway 'c'"),
            ("[gateways.a]\ncache = \"1 kB\"", "0 B, or lie between 128 KiB"),
            ("[gateways.a]\nbackpressure = \"limit-3\"", "limit-"),
            ("[gateways.a]\nblock-loss = \"3/2\"", "block-loss"),
            ("[gateways.a]\nblock = \"1 kB\"", "between 4 KiB and 64 MiB"),
            ("[gateways.a]\nwithhold = 256", "= 256 must be 0, or lie between 1 and 255"),
            ("[gateways.a]\nradio = \"udp\"", "raw"),
            ("[gateways.a]\nbuffer = \"1 B\"", "between 1 KiB and 1 GiB"),
            ("[gateways.a]\nsides = [{ nodes = [\"c\"] }]", "no node 'c'"),
            ("[gateways.a]\nsides = [{ congestion = \"bbr\" }]", "nodes"),
            ("[gateways.a]\nsides = [{ nodes = [\"b\"], tcp = { ack-every = 0 } }]", "must lie between 1 and 1000"),
            ("[gateways.a]\nsides = [{ nodes = [\"b\"], freeze = \"two\" }]", "unknown"),
            ("[gateways.a]\nseal = true", "seal"),
            ("[gateways.a]\nseal = \"hop\"", "end-to-end"),
        ] {
            let error = parse(section).expect_err(section);
            assert!(error.contains(why), "{error}");
        }
    }
}
