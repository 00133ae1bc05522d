//! Block switching over a radio cell: two senders that do not hear each other, one receiver.

use crate::common::run_scenario;
use std::path::Path;
use wavelane_run::StackRaw;
use wavelane_scenario::{Scenario, Stack};

/// Bytes of each sender's upload in 20 s under `hop-2009` with these knobs, and what the run says.
fn hidden(knobs: &str) -> ([u64; 2], StackRaw) {
    hidden_at("phy = \"802.11b\"\npreamble = \"short\"\nrate = \"11 Mbit/s\"", "8 ms", knobs, "")
}

/// The same in a cell of this PHY and TXOP, with more said of the second flow.
fn hidden_at(phy: &str, txop: &str, knobs: &str, second: &str) -> ([u64; 2], StackRaw) {
    let mut text = r#"
title = "hidden senders"
duration = "20 s"
stacks = ["hop-2009"]
nodes = { left = "endpoint", right = "endpoint", server = "endpoint", a = "gateway", b = "gateway", c = "gateway" }
[channels.air]
kind = "wifi"
nodes = ["a", "b", "c"]
PHY
edca = { best-effort = { txop = "TXOP" } }
reach = "none"
pairs = [{ between = ["a", "c"], hear = "decode" }, { between = ["b", "c"], hear = "decode" }]
[channels.lan-a]
preset = "ethernet"
between = ["left", "a"]
[channels.lan-b]
preset = "ethernet"
between = ["right", "b"]
[channels.lan-c]
preset = "ethernet"
between = ["server", "c"]
[flows.one]
app = "upload"
from = "left"
to = "server"
[flows.other]
app = "upload"
from = "right"
to = "server"
SECOND
"#
    .replace("PHY", phy)
    .replace("TXOP", txop)
    .replace("SECOND", second);
    for gateway in ["a", "b", "c"] {
        text += &format!("[gateways.{gateway}]\n{knobs}\n");
    }
    let scenario = Scenario::parse(&text, Path::new(".")).unwrap();
    let raw = run_scenario(&scenario, Stack::HOP_2009, 1);
    ([raw.flows[0].octets, raw.flows[1].octets], raw)
}

#[test]
fn hidden_senders_take_turns() {
    let ([one, other], _) = hidden("");
    let goodput = (one + other) as f64 * 8.0 / 20.0;
    // CSMA carries 4.23 Mbit/s here and RTS/CTS 5.27.
    assert!(goodput > 8.0e6, "{goodput}");
    assert!(one.min(other) * 10 > one.max(other) * 6, "{one} {other}");
}

#[test]
fn a_hidden_sender_that_begins_later_opens_its_flow_between_turns() {
    // A block takes 1.4 s, in which nothing of the second sender is heard.
    let phy = "phy = \"802.11a\"\nrate = \"6 Mbit/s\"";
    let ([one, other], _) = hidden_at(phy, "25 ms", "", "start = \"3 s\"");
    // 17 s are shared, less the blocks that are on when it begins and at the end.
    assert!(other * 10 > one * 3, "{one} {other}");
    assert!((one + other) as f64 * 8.0 / 20.0 > 4.5e6, "{one} {other}");
}

/// Four stations in a line of which those two apart disturb each other unheard: a relay that cuts through carries 1.5 Mbit/s, for its
/// frames fall on those of the station before it.
#[test]
fn relays_of_a_line_of_hidden_stations_pass_whole_turns() {
    let mut text = String::from(
        "title = \"t\"\nduration = \"12 s\"\nstacks = [\"wavelane\"]\n[nodes]\na = \"gateway\"\nb = \"gateway\"\nc = \"gateway\"\n\
         d = \"gateway\"\nx = \"endpoint\"\ny = \"endpoint\"\n[channels.air]\nkind = \"wifi\"\nnodes = [\"a\", \"b\", \"c\", \"d\"]\n\
         phy = \"802.11b\"\nrate = \"11 Mbit/s\"\nedca = { best-effort = { txop = \"8 ms\" } }\nreach = \"none\"\npairs = [\n",
    );
    for (pair, hear) in [("ab", "decode"), ("bc", "decode"), ("cd", "decode"), ("ac", "interfere"), ("bd", "interfere")]
    {
        let (one, two) = pair.split_at(1);
        text += &format!("{{ between = [\"{one}\", \"{two}\"], hear = \"{hear}\" }},\n");
    }
    text += "]\n[channels.lana]\npreset = \"ethernet\"\nbetween = [\"x\", \"a\"]\n[channels.land]\npreset = \"ethernet\"\n\
             between = [\"y\", \"d\"]\n[flows.up]\napp = \"upload\"\nfrom = \"x\"\nto = \"y\"\n";
    let octets = run_scenario(&Scenario::parse(&text, Path::new(".")).unwrap(), Stack::WAVELANE, 1).flows[0].octets;
    assert!(octets * 8 / 12 > 1_850_000, "{octets} octets in 12 s");
}

#[test]
fn without_turns_bursts_collide() {
    let (taken, _) = hidden("withhold = 0");
    let (turns, _) = hidden("");
    let sum = |octets: [u64; 2]| octets[0] + octets[1];
    assert!(sum(taken) * 10 < sum(turns) * 9, "{taken:?} {turns:?}");
}

#[test]
fn bulk_is_not_acknowledged_by_the_link_and_control_is() {
    let (_, raw) = hidden("");
    let of = |name: &str| raw.radios[0].categories.iter().find(|c| c.category == name).unwrap();
    assert!(of("best-effort").data > 5_000 && of("best-effort").ack_missing == 0);
    assert!(of("voice").data > 100 && of("voice").ack_missing > 0);
    // As any frame of a station that says nothing of it: acknowledged, and repeated.
    let (_, plain) = hidden("radio = \"plain\"");
    assert!(plain.radios[0].categories.iter().any(|c| c.category == "best-effort" && c.ack_missing > 0));
}
