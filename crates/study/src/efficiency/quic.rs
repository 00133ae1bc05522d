//! QUIC as a peer: a download over one stream of quinn on the bare link, with either congestion control.

use super::judge::{against, carried};
use super::{ID, Loss, Plan, bulk_text, link_text};
use crate::cells::{Head, unproven};
use crate::document::Row;
use serde_json::json;
use wavelane_run::{RunDocument, StackResult, Verdict};

/// The stacks that say which congestion control QUIC uses, and what such a peer is called.
const PEERS: [(&str, &str); 2] = [("tcp-cubic", "quic-cubic"), ("tcp-bbr", "quic-bbr")];

/// The same link, seed and time as the other stacks have; the download begins when theirs does.
pub(super) fn scenario_text(loss: &Loss, plan: &Plan) -> String {
    let [small, all] = plan.seconds;
    let title = format!("20 Mbit/s and 100 ms, QUIC, loss both ways: {}", loss.words);
    let stacks = PEERS.map(|(stack, _)| format!("\"{stack}\"")).join(", ");
    link_text(&title, all, &stacks, "50 ms", &loss.line()) + &bulk_text("quic", small)
}

/// What QUIC did, and ours against it. `others` holds the runs of the other stacks in the same cell.
pub(super) fn rows(loss: &Loss, others: &RunDocument, document: &RunDocument) -> Vec<Row> {
    let case = [("loss".to_owned(), json!(loss.words))].into_iter().collect();
    let head = |stack: &str| Head { id: ID.into(), backend: document.backend.clone(), case, stack: stack.into() };
    let head = head("wavelane");
    let ours = others.stacks.iter().find(|s| s.stack == head.stack);
    let mut rows = Vec::new();
    for (stack, name) in PEERS {
        let Some(found) = document.stacks.iter().find(|s| s.stack == stack) else {
            let why = document.omitted.iter().find(|o| o.stack == stack).map_or("it is missing", |o| &o.why);
            let mut row = Head { stack: name.into(), ..head.clone() }.row("goodput_bps", "bit/s", &[]);
            row.verdict = Verdict::Inconclusive;
            row.why = format!("not run: {why}");
            rows.push(row);
            continue;
        };
        let peer = StackResult { stack: name.into(), ..found.clone() };
        let mut made = carried(&Head { stack: name.into(), ..head.clone() }, loss, &peer);
        made.iter_mut().for_each(|row| unproven(row, &[&peer]));
        rows.extend(made);
        let mut made = ours.map(|ours| against(&head, loss, ours, &peer)).unwrap_or_default();
        made.iter_mut().for_each(|row| unproven(row, &[&peer].into_iter().chain(ours).collect::<Vec<_>>()));
        rows.extend(made);
    }
    rows
}
