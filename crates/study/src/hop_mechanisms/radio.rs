//! The experiments over radio cells, under the preset `hop-2009`: senders that do not hear each other, and keys beside a block.

use super::judge::rows_of;
use super::{Seen, Task};
use crate::cells::{Aim, Head, joined};
use crate::document::Row;
use serde_json::json;

/// Seconds that flows run, and from which on they have settled.
const SECONDS: u64 = 32;
const SETTLED_S: f64 = 4.0;
/// Bytes that a datagram of 1,500 carries as UDP.
const PAYLOAD: f64 = 1_472.0;

/// A cell: its PHY and rate, its TXOP limit, and what endless bursts of datagrams without ACK carry.
struct Cell {
    name: &'static str,
    phy: &'static str,
    txop_ms: u32,
    /// A frame of 1,500 bytes on the air with SIFS, in microseconds.
    frame_us: f64,
    /// At least this share of the ceiling; for the first cell the aims are the two ways of contending.
    share: Option<f64>,
}

const CELLS: [Cell; 4] = [
    Cell {
        name: "802.11b 11",
        phy: "phy = \"802.11b\"\npreamble = \"short\"\nrate = \"11 Mbit/s\"",
        txop_ms: 8,
        frame_us: 96.0 + 1_117.0 + 10.0,
        share: None,
    },
    Cell {
        name: "802.11a 54",
        phy: "phy = \"802.11a\"\nrate = \"54 Mbit/s\"",
        txop_ms: 8,
        frame_us: 20.0 + 228.0 + 16.0,
        share: Some(0.92),
    },
    Cell {
        name: "802.11a 6",
        phy: "phy = \"802.11a\"\nrate = \"6 Mbit/s\"",
        txop_ms: 25,
        frame_us: 20.0 + 2_052.0 + 16.0,
        share: Some(0.92),
    },
    Cell {
        name: "DSSS 2",
        phy: "phy = \"802.11b\"\npreamble = \"short\"\nrate = \"2 Mbit/s\"",
        txop_ms: 25,
        frame_us: 96.0 + 6_144.0 + 10.0,
        share: Some(0.92),
    },
];
/// Hops of the line over which keys go.
const LINES: [u32; 3] = [1, 2, 3];

/// Two senders that do not hear each other and a receiver that hears both. `knobs` is `None` where datagrams contend as they
/// come.
fn hidden(cell: &Cell, more: &str, knobs: Option<&str>) -> String {
    let stack = if knobs.is_some() { "hop-2009" } else { "udp" };
    let mut text = format!(
        "title = \"Two hidden senders fill a cell\"\nduration = \"{SECONDS} s\"\nstacks = [\"{stack}\"]\n[nodes]\n"
    );
    for node in ["a", "b", "c"] {
        text += &format!("{node} = \"{}\"\n", if knobs.is_some() { "gateway" } else { "endpoint" });
    }
    if knobs.is_some() {
        text += "left = \"endpoint\"\nright = \"endpoint\"\nserver = \"endpoint\"\n";
        for (endpoint, gateway) in [("left", "a"), ("right", "b"), ("server", "c")] {
            text += &format!(
                "[channels.lan-{endpoint}]\npreset = \"ethernet\"\nbetween = [\"{endpoint}\", \"{gateway}\"]\n"
            );
        }
    }
    text += &format!(
        "[channels.air]\nkind = \"wifi\"\nnodes = [\"a\", \"b\", \"c\"]\n{}\nqueue = \"50 packets\"\n{more}\nreach = \"none\"\n\
         pairs = [{{ between = [\"a\", \"c\"], hear = \"decode\" }}, {{ between = [\"b\", \"c\"], hear = \"decode\" }}]\n",
        cell.phy
    );
    let bursts = more.contains("edca");
    for (flow, gateway, endpoint) in [("one", "a", "left"), ("other", "b", "right")] {
        text += &match knobs {
            Some(_) => format!("[flows.{flow}]\napp = \"upload\"\nfrom = \"{endpoint}\"\nto = \"server\"\n"),
            None => format!(
                "[flows.{flow}]\napp = \"saturate\"\nfrom = \"{gateway}\"\nto = \"c\"\nsize = \"{PAYLOAD} B\"\nno-ack = {bursts}\n"
            ),
        };
    }
    for gateway in ["a", "b", "c"] {
        text += &knobs.map(|knobs| format!("[gateways.{gateway}]\n{knobs}\n")).unwrap_or_default();
    }
    text
}

/// An echo beside an upload over a line of stations, in which neighbours hear each other and the next but one is sensed.
fn keys(hops: u32, on: bool) -> String {
    let (cell, nodes) = (&CELLS[0], 0..=hops);
    let names: Vec<String> = nodes.map(|n| format!("g{n}")).collect();
    let mut text = String::from(
        "title = \"Keys of 64 bytes beside an upload over a line of stations\"\nduration = \"25 s\"\nstacks = [\"hop-2009\"]\n\
         [nodes]\nclient = \"endpoint\"\nserver = \"endpoint\"\n",
    );
    names.iter().for_each(|name| text += &format!("{name} = \"gateway\"\n"));
    let list: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
    let pair = |apart: usize, hear: &str| {
        let pairs = list.iter().zip(list.iter().skip(apart));
        pairs.map(|(a, b)| format!("{{ between = [{a}, {b}], hear = \"{hear}\" }}")).collect::<Vec<_>>()
    };
    let pairs = [pair(1, "decode"), pair(2, "sense")].concat().join(", ");
    text += &format!(
        "[channels.air]\nkind = \"wifi\"\nnodes = [{}]\n{}\nqueue = \"50 packets\"\nedca = {{ best-effort = {{ txop = \"{} ms\" }} }}\n\
         reach = \"none\"\npairs = [{pairs}]\n",
        list.join(", "),
        cell.phy,
        cell.txop_ms
    );
    for (endpoint, gateway) in [("client", &names[0]), ("server", &names[names.len() - 1])] {
        text +=
            &format!("[channels.lan-{endpoint}]\npreset = \"ethernet\"\nbetween = [\"{endpoint}\", \"{gateway}\"]\n");
    }
    text += "[flows.bulk]\napp = \"upload\"\nfrom = \"client\"\nto = \"server\"\n\
             [flows.keys]\napp = \"echo\"\nfrom = \"client\"\nto = \"server\"\nstart = \"5 s\"\nevery = \"100 ms\"\nsize = \"64 B\"\n";
    names.iter().for_each(|name| text += &format!("[gateways.{name}]\nmicro-blocks = {on}\n"));
    text
}

/// All of them.
pub(super) fn all() -> Vec<Task> {
    let mut tasks = Vec::new();
    for cell in &CELLS {
        let bursts = format!("edca = {{ best-effort = {{ txop = \"{} ms\" }} }}", cell.txop_ms);
        let short = cell.name.replace([' ', '.'], "-");
        let rts = "rts-threshold = \"0 B\"";
        let runs = [
            ("hop", hidden(cell, &bursts, Some(""))),
            ("unwithheld", hidden(cell, &bursts, Some("withhold = 0"))),
            ("acked", hidden(cell, &bursts, Some("radio = \"plain\""))),
            ("csma", hidden(cell, "", None)),
            ("rts", hidden(cell, rts, None)),
            ("rts-txop", hidden(cell, &format!("{bursts}\n{rts}"), None)),
        ];
        let runs = runs.map(|(name, text)| (format!("hidden-{short}-{name}"), text)).into();
        tasks.push(Task::new("withholding", runs, move |found| of_hidden(cell, found)));
    }
    for hops in LINES {
        let runs = [true, false].map(|on| (format!("radio-keys-{hops}-{on}"), keys(hops, on))).into();
        tasks.push(Task::new("withholding", runs, move |found| of_keys(hops, found)));
    }
    tasks
}

/// S2-E10: what both bring together, and how evenly, with withholding, without, and as others contend.
fn of_hidden(cell: &'static Cell, found: &[Option<Seen>]) -> Vec<Row> {
    let case = |how: &str| [("cell", json!(cell.name)), ("senders", json!(how))];
    rows_of(found, &Head::sim("S2-E10", &case("withheld"), "hop-2009"), "goodput_bps", |seen| {
        let goodput: Vec<Vec<f64>> = seen.iter().map(|seen| seen.goodput(SETTLED_S, SECONDS as f64)).collect();
        let ways = [
            ("withheld", "hop-2009"),
            ("not withheld", "hop-2009"),
            ("withheld, link ACKs", "hop-2009"),
            ("CSMA", "udp"),
            ("RTS/CTS", "udp"),
            ("RTS/CTS once per TXOP", "udp"),
        ];
        let all = ways.iter().zip(&goodput);
        let mut rows: Vec<Row> = all
            .map(|((how, stack), goodput)| Head::sim("S2-E10", &case(how), stack).row("goodput_bps", "bit/s", goodput))
            .collect();
        let ceiling = PAYLOAD * 8.0 / cell.frame_us * 1e6;
        rows[0].bound = Some(ceiling);
        let mut over = |place: usize, aim: Aim| {
            let ratio = joined(&goodput[0], &goodput[place], |ours, theirs| ours / theirs);
            let of = [("cell", json!(cell.name)), ("over", json!(ways[place].0))];
            rows.push(Head::sim("S2-E10", &of, "hop-2009").row("goodput_over", "ratio", &ratio).judged(aim));
        };
        match cell.share {
            None => [(3, 2.0), (4, 1.5), (5, 1.0)].into_iter().for_each(|(place, aim)| over(place, Aim::AtLeast(aim))),
            Some(share) => {
                over(5, Aim::AtLeast(1.0));
                let of: Vec<f64> = goodput[0].iter().map(|goodput| goodput / ceiling).collect();
                rows.push(
                    Head::sim("S2-E10", &[("cell", json!(cell.name))], "hop-2009")
                        .row("of_burst_ceiling", "ratio", &of)
                        .judged(Aim::AtLeast(share)),
                );
            }
        }
        let even = seen[0].jain(SETTLED_S, SECONDS as f64);
        let row = Head::sim("S2-E10", &[("cell", json!(cell.name))], "hop-2009").row("jain", "index", &even);
        rows.push(row.judged(Aim::AtLeast(0.95)));
        for (mechanism, place) in [("withholding", 1), ("bursts without ACK", 2)] {
            let worth = joined(&goodput[0], &goodput[place], |on, off| on / off);
            let of = [("mechanism", json!(mechanism)), ("cell", json!(cell.name))];
            rows.push(
                Head::sim("S2-E12", &of, "hop-2009").row("with_over_without", "ratio", &worth).judged(Aim::Above(1.0)),
            );
        }
        rows
    })
}

/// S2-E11 over radio: half of an echo's median is one way.
fn of_keys(hops: u32, found: &[Option<Seen>]) -> Vec<Row> {
    let case = |on: &str| [("radio hops", json!(hops)), ("micro-blocks", json!(on))];
    rows_of(found, &Head::sim("S2-E11", &case("on"), "hop-2009"), "one_way_p50_ms", |seen| {
        let one_way = |seen: &Seen| seen.figure("keys", |f| f.rtt_p50_ms.map(|rtt| rtt / 2.0));
        let (on, off) = (one_way(seen[0]), one_way(seen[1]));
        let row = Head::sim("S2-E11", &case("on"), "hop-2009").row("one_way_p50_ms", "ms", &on);
        let row = row.judged(Aim::AtMost(f64::from(hops) * f64::from(CELLS[0].txop_ms + 10)));
        let without = Head::sim("S2-E11", &case("off"), "hop-2009").row("one_way_p50_ms", "ms", &off);
        let worth = joined(&off, &on, |off, on| off / on);
        let of = [("mechanism", json!("micro-blocks")), ("radio hops", json!(hops))];
        let gain = Head::sim("S2-E12", &of, "hop-2009").row("delay_without_over_with", "ratio", &worth);
        let gain = gain.judged(Aim::Above(1.0));
        vec![row, without, gain]
    })
}
