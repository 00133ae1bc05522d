//! S0-E20: a dead reverse radio.

use super::Seen;
use crate::cells::{Aim, Head};
use crate::document::Row;
use crate::plan::About;
use serde_json::json;
use std::path::Path;
use wavelane_base::{FrameMeta, Instant, Machine};
use wavelane_channel::wifi::{Category, Handling, Reach, Wifi, port};
use wavelane_scenario::Scenario;

/// A card that waits for acknowledgements which its receiver cannot send, and one that does not.
pub(super) fn dead(_: &About, _: &[&[Seen]]) -> Vec<Row> {
    let case =
        |dead: bool, card: &str| [("reverse", json!(if dead { "dead" } else { "alive" })), ("card", json!(card))];
    let kinds =
        [("802.11", "phy = \"dsss\"\nrate = \"2 Mbit/s\""), ("WaveLAN", "phy = \"wavelan\"\nrate = \"2 Mbit/s\"")];
    let mut rows = Vec::new();
    let mut dead = Vec::new();
    for (card, phy) in kinds {
        for is_dead in [false, true] {
            let carried = carried(phy, is_dead);
            rows.push(Head::sim("S0-E20", &case(is_dead, card), "udp").row("goodput_bps", "bit/s", carried.as_slice()));
            dead.extend(carried.filter(|_| is_dead));
        }
    }
    let ratio: Vec<f64> = dead.chunks(2).filter(|pair| pair.len() == 2).map(|pair| pair[0] / pair[1]).collect();
    let row = Head::sim("S0-E20", &[("reverse", json!("dead"))], "udp")
        .row("with_acks_over_without", "ratio", &ratio)
        .bound_by(1.0 / 7.0);
    rows.push(row.judged(Aim::AtMost(1.0 / 7.0)));
    rows
}

/// What one station that always has frames carries to another, whose own frames nobody hears if it is `dead`.
fn carried(phy: &str, dead: bool) -> Option<f64> {
    const FRAME: usize = 1_500;
    let text = format!(
        "title = \"Two stations\"\nduration = \"20 s\"\nstacks = [\"udp\"]\n[nodes]\na = \"endpoint\"\nb = \"endpoint\"\n[channels.air]\n\
         kind = \"wifi\"\nnodes = [\"a\", \"b\"]\n{phy}\n[flows.f]\napp = \"saturate\"\nfrom = \"a\"\nto = \"b\"\nsize = \"1 kB\"\n"
    );
    let scenario = Scenario::parse(&text, Path::new(".")).ok()?;
    let mut config = scenario.channels.first()?.cell()?.clone();
    if dead {
        config.reach.set(1, 0, Reach::default()).ok()?;
    }
    let mut cell = Wifi::new(scenario.seed, "air", &config).ok()?;
    let (end, mut now, mut octets) = (Instant::ZERO + scenario.duration, Instant::ZERO, 0);
    let mut frame = Vec::new();
    while now < end {
        while cell.waiting_in(0, Category::BestEffort) < 4 {
            cell.hand_in(now, port(0, 1), &[0; FRAME], FrameMeta::default(), Handling::default());
        }
        while cell.poll_event().is_some() {}
        while cell.next_ready().is_some() {
            frame.clear();
            cell.take_ready(now, &mut frame)?;
            octets += frame.len();
        }
        now = cell.poll_timeout()?.at;
        cell.handle_timeout(now);
    }
    Some(octets as f64 * 8.0 / scenario.duration.as_secs_f64())
}
