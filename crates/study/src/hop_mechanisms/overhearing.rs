//! A relay and the next station in one radio cell: what that station overhears of the frames for the relay need not be sent to it again.

use super::judge::rows_of;
use super::{Seen, Task};
use crate::cells::{Aim, Head, joined};
use crate::document::Row;
use serde_json::json;

/// Seconds that the upload runs, and from which on it has settled.
const SECONDS: u64 = 20;
const SETTLED_S: f64 = 4.0;
/// Bytes of a flow in a full datagram of 1,500 (`docs/protocol/wire.md`, "What a full datagram costs", and the open octets' number).
const PAYLOAD: f64 = 1_433.0;

/// A cell of 802.11a, in which the last station hears the first with so much less signal that it gets part of its frames.
struct Cell {
    mbit: u32,
    /// The signal of the first station at the last, above the noise.
    signal_db: u32,
    /// Share of full frames that it receives: `a_listener_hears_what_its_signal_lets_through` in the channel's tests.
    heard: f64,
}

const CELLS: [Cell; 3] = [
    Cell { mbit: 36, signal_db: 13, heard: 0.12 },
    Cell { mbit: 24, signal_db: 11, heard: 0.81 },
    Cell { mbit: 36, signal_db: 14, heard: 0.92 },
];

/// Two hops in one cell. The last station hears the first, which does not hear it.
fn line(cell: &Cell, overhear: bool) -> String {
    let mut text = format!(
        "title = \"Two hops in a radio cell in which the last station overhears the first\"\nduration = \"{SECONDS} s\"\nstacks = [\"hop-2009\"]\n\
         [nodes]\nclient = \"endpoint\"\nserver = \"endpoint\"\na = \"gateway\"\nb = \"gateway\"\nc = \"gateway\"\n\
         [channels.air]\nkind = \"wifi\"\nnodes = [\"a\", \"b\", \"c\"]\nphy = \"802.11a\"\nrate = \"{} Mbit/s\"\nnoise = \"0 dB\"\n\
         queue = \"50 packets\"\nedca = {{ best-effort = {{ txop = \"8 ms\" }} }}\nreach = \"none\"\npairs = [\n\
         {{ between = [\"a\", \"b\"], hear = \"decode\", signal = \"40 dB\" }},\n\
         {{ between = [\"b\", \"c\"], hear = \"decode\", signal = \"40 dB\" }},\n\
         {{ from = \"a\", to = \"c\", hear = \"decode\", signal = \"{} dB\" }},\n\
         {{ from = \"c\", to = \"a\", hear = \"sense\" }},\n]\n",
        cell.mbit, cell.signal_db
    );
    for (endpoint, gateway) in [("client", "a"), ("server", "c")] {
        text +=
            &format!("[channels.lan-{endpoint}]\npreset = \"ethernet\"\nbetween = [\"{endpoint}\", \"{gateway}\"]\n");
    }
    text += "[flows.file]\napp = \"upload\"\nfrom = \"client\"\nto = \"server\"\n";
    for gateway in ["a", "b", "c"] {
        text += &format!("[gateways.{gateway}]\nseal = \"end-to-end\"\noverhear = {overhear}\n");
    }
    text
}

/// All of them.
pub(super) fn all() -> Vec<Task> {
    let task = |cell: &'static Cell| {
        Task::new(
            "overhearing",
            [false, true].map(|on| (format!("overhear-{}-{}-{on}", cell.mbit, cell.signal_db), line(cell, on))).into(),
            move |found| of_line(cell, found),
        )
    };
    CELLS.iter().map(task).collect()
}

fn head(cell: &Cell, overhear: &str) -> Head {
    let case = [
        ("cell", json!(format!("802.11a {}", cell.mbit))),
        ("heard", json!(cell.heard)),
        ("overhear", json!(overhear)),
    ];
    Head::sim("overhearing", &case, "hop-2009")
}

/// Data frames of all stations and kinds for each full datagram of bytes that arrived, per seed, over the whole run.
fn transmissions(seen: &Seen) -> Vec<f64> {
    let frames = seen.stack.radios.iter().map(|radio| radio.data_per_s).collect::<Vec<_>>();
    let arrived = seen.goodput(0.0, SECONDS as f64);
    joined(&frames, &arrived, |frames, bps| frames * PAYLOAD * 8.0 / bps)
}

fn of_line(cell: &'static Cell, found: &[Option<Seen>]) -> Vec<Row> {
    rows_of(found, &head(cell, "on"), "transmissions", |seen| {
        let [off, on] = [0, 1].map(|run| transmissions(seen[run]));
        let goodput = [0, 1].map(|run: usize| seen[run].goodput(SETTLED_S, SECONDS as f64));
        let mut rows = Vec::new();
        for (word, values, bound) in [("off", &off, 2.0), ("on", &on, 2.0 - cell.heard)] {
            let mut row = head(cell, word).row("transmissions", "per datagram", values);
            // Each hop carries every byte once, but for what was heard.
            row.bound = Some(bound);
            rows.push(row);
        }
        let saved = joined(&off, &on, |off, on| off - on);
        let row = head(cell, "on").row("saved", "per datagram", &saved);
        rows.push(row.bound_by(cell.heard).judged(Aim::AtLeast(0.9 * cell.heard)));
        let gain = joined(&goodput[1], &goodput[0], |on, off| on / off);
        let row = head(cell, "on").row("goodput_over_off", "ratio", &gain);
        rows.push(row.bound_by(2.0 / (2.0 - cell.heard)).judged(Aim::Above(1.0)));
        rows
    })
}
