//! A relay and the next station in one radio cell: what that station overhears of the frames for the relay need not be sent to it again.

use super::Seen;
use super::judge::rows_of;
use crate::cells::{Aim, Head, joined};
use crate::document::Row;
use crate::plan::About;
use serde_json::json;

/// Seconds that the upload runs, and from which on it has settled.
const SECONDS: f64 = 20.0;
const SETTLED_S: f64 = 4.0;
/// Bytes of a flow in a full datagram of 1,500 (`docs/protocol/wire.md`, "What a full datagram costs", and the open octets' number).
const PAYLOAD: f64 = 1_433.0;

fn head(about: &About, overhear: &str) -> Head {
    let case =
        [("cell", json!(about.word("cell"))), ("heard", json!(about.number("heard"))), ("overhear", json!(overhear))];
    Head::sim("overhearing", &case, "hop-2009")
}

/// Data frames of all stations and kinds for each full datagram of bytes that arrived, per seed, over the whole run.
fn transmissions(seen: &Seen) -> Vec<f64> {
    let frames = seen.stack.radios.iter().map(|radio| radio.data_per_s).collect::<Vec<_>>();
    let arrived = seen.goodput(0.0, SECONDS);
    joined(&frames, &arrived, |frames, bps| frames * PAYLOAD * 8.0 / bps)
}

/// Two hops in one cell. The last station hears the first, which does not hear it: so much less signal that it gets the share `heard` of full
/// frames (`a_listener_hears_what_its_signal_lets_through` in the channel's tests).
pub(super) fn overheard(about: &About, found: &[Option<Seen>]) -> Vec<Row> {
    let heard = about.number("heard");
    rows_of(found, &head(about, "on"), "transmissions", |seen| {
        let [off, on] = [0, 1].map(|run| transmissions(seen[run]));
        let goodput = [0, 1].map(|run: usize| seen[run].goodput(SETTLED_S, SECONDS));
        let mut rows = Vec::new();
        for (word, values, bound) in [("off", &off, 2.0), ("on", &on, 2.0 - heard)] {
            let mut row = head(about, word).row("transmissions", "per datagram", values);
            // Each hop carries every byte once, but for what was heard.
            row.bound = Some(bound);
            rows.push(row);
        }
        let saved = joined(&off, &on, |off, on| off - on);
        let row = head(about, "on").row("saved", "per datagram", &saved);
        rows.push(row.bound_by(heard).judged(Aim::AtLeast(0.9 * heard)));
        let gain = joined(&goodput[1], &goodput[0], |on, off| on / off);
        let row = head(about, "on").row("goodput_over_off", "ratio", &gain);
        rows.push(row.bound_by(2.0 / (2.0 - heard)).judged(Aim::Above(1.0)));
        rows
    })
}
