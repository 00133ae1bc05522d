//! What single gateways do differently: `[gateways.NAME]`.

use crate::error::ScenarioError;
use crate::model::{Backpressure, GatewayKnobs, Node, NodeKind};
use crate::parse::word;
use crate::table::Value;
use crate::units::Quantity;
use crate::write::{text, unit};
use core::fmt::Write;
use wavelane_base::{Octets, Ratio};

/// Keys of `[gateways.NAME]`, as files write them.
pub const GATEWAY_KEYS: &[&str] = &["backpressure", "micro-blocks", "cache", "block-loss", "seal", "corruption"];

/// Smallest cache that serves: two of the smallest blocks.
const CACHE_MIN: Octets = Octets::new(128 << 10);
/// Largest cache.
const CACHE_MAX: Octets = Octets::new(1 << 36);

/// The words for backpressure.
pub const BACKPRESSURES: &[(&str, Backpressure)] = &[
    ("adaptive", Backpressure::Adaptive),
    ("limit-1", Backpressure::One),
    ("limit-2", Backpressure::Two),
    ("off", Backpressure::Off),
];

/// The words for sealing.
pub(crate) const SEALS: &[(&str, bool)] = &[("off", false), ("end-to-end", true)];

/// Reads `[gateways.NAME]`.
pub(crate) fn knobs(nodes: &[Node], name: &str, value: &Value<'_>) -> Result<GatewayKnobs, ScenarioError> {
    let table = value.table("{ backpressure = \"limit-1\" }")?;
    table.only(GATEWAY_KEYS)?;
    if !nodes.iter().any(|node| node.name == name && node.kind == NodeKind::Gateway) {
        return Err(value.impossible(format!("[{}]: there is no gateway '{name}': name one of [nodes]", value.path)));
    }
    let mut knobs = GatewayKnobs::new(name);
    if let Some(value) = table.get("backpressure") {
        knobs.backpressure = word(&value, "backpressure", BACKPRESSURES, "\"limit-1\"")?;
    }
    if let Some(value) = table.get("micro-blocks") {
        knobs.micro_blocks = value.bool()?;
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
    Ok(knobs)
}

/// Writes it.
pub(crate) fn write(knobs: &GatewayKnobs) -> String {
    let known = BACKPRESSURES.iter().find(|(_, kind)| *kind == knobs.backpressure);
    let word = known.map_or("adaptive", |(word, _)| word);
    let mut out = format!("\n[gateways.{}]\nbackpressure = {}\n", knobs.node, text(word));
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
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scenario;
    use std::path::Path;

    fn parse(section: &str) -> Result<Scenario, String> {
        let text = format!(
            "duration = \"1 s\"\nstacks = [\"wavelane\"]\nnodes = {{ a = \"gateway\", b = \"gateway\" }}\n\
             channels = {{ air = {{ preset = \"ethernet\", between = [\"a\", \"b\"] }} }}\n\
             flows = {{ page = {{ app = \"download\", from = \"a\", to = \"b\" }} }}\n{section}\n"
        );
        Scenario::parse(&text, Path::new(".")).map_err(|error| error.to_string())
    }

    #[test]
    fn knobs_are_read_and_written_and_the_others_keep_their_defaults() {
        let text = "[gateways.b]\nbackpressure = \"limit-2\"\nmicro-blocks = false\nblock-loss = \"1/10\"\ncache = \"0 B\"\n\
             seal = \"end-to-end\"\ncorruption = \"1/100\"";
        let scenario = parse(text).expect("sound");
        let knobs = &scenario.gateways[0];
        assert_eq!((knobs.node.as_str(), knobs.backpressure, knobs.micro_blocks), ("b", Backpressure::Two, false));
        assert_eq!((knobs.cache, knobs.block_loss), (Some(Octets::ZERO), Ratio::new(1, 10).expect("a share")));
        assert_eq!((knobs.seal, knobs.corruption), (true, Ratio::new(1, 100).expect("a share")));
        assert_eq!(Scenario::parse(&scenario.to_toml(), Path::new(".")).as_ref(), Ok(&scenario));
        assert_eq!(parse("[gateways.a]").expect("sound").gateways, [GatewayKnobs::new("a")]);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (section, why) in [
            ("[gateways.c]\nmicro-blocks = true", "no gateway 'c'"),
            ("[gateways.a]\ncache = \"1 kB\"", "0 B, or lie between 128 KiB"),
            ("[gateways.a]\nbackpressure = \"limit-3\"", "limit-"),
            ("[gateways.a]\nblock-loss = \"3/2\"", "block-loss"),
            ("[gateways.a]\nseal = true", "seal"),
            ("[gateways.a]\nseal = \"hop\"", "end-to-end"),
        ] {
            let error = parse(section).expect_err(section);
            assert!(error.contains(why), "{error}");
        }
    }
}
