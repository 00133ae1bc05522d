//! What a table or a picture of the study shows, as a sentence computed from its rows.

use super::page::{number, word};
use crate::document::Row;

/// Whether two rows are of one figure in cases that differ in `key` alone.
fn alike(a: &Row, b: &Row, key: &str) -> bool {
    let rest = |row: &Row| row.case.iter().filter(|(k, _)| *k != key).map(|(k, v)| (k.clone(), v.clone())).collect();
    let (left, right): (Vec<_>, Vec<_>) = (rest(a), rest(b));
    (&a.id, &a.metric, &a.stack) == (&b.id, &b.metric, &b.stack) && left == right
}

/// Each row and the one at the next larger value of `key`.
fn steps<'a>(rows: &[&'a Row], key: &str) -> Vec<(&'a Row, &'a Row)> {
    let next = |row: &'a Row| {
        let at = number(row, key)?;
        let larger = rows.iter().copied().filter(|r| alike(row, r, key) && number(r, key).is_some_and(|v| v > at));
        let next =
            larger.min_by(|a, b| number(a, key).partial_cmp(&number(b, key)).unwrap_or(core::cmp::Ordering::Equal));
        Some((row, next?))
    };
    rows.iter().copied().filter_map(next).collect()
}

/// The rows at the least and at the largest value of `key`.
fn ends<'a>(rows: &[&'a Row], key: &str) -> Vec<(&'a Row, &'a Row)> {
    let at = |row: &&&'a Row| number(row, key);
    let (least, most) =
        rows.iter().filter_map(|row| at(&row)).fold((f64::MAX, f64::MIN), |(l, m), v| (l.min(v), m.max(v)));
    let from = rows.iter().filter(|row| at(row) == Some(least) && least < most);
    from.filter_map(|row| Some((*row, *rows.iter().find(|r| at(r) == Some(most) && alike(row, r, key))?))).collect()
}

/// The rows with RTS/CTS, each with the one without.
fn handshakes<'a>(rows: &[&'a Row]) -> Vec<(&'a Row, &'a Row)> {
    let without = |row: &&'a Row| {
        let column = word(row, "column").strip_prefix("R/")?;
        rows.iter().copied().find(|r| word(r, "column") == format!("NR/{column}") && alike(row, r, "column"))
    };
    rows.iter().filter_map(|row| Some((*row, without(row)?))).collect()
}

/// Our values of pairs that have both.
fn ours(pairs: Vec<(&Row, &Row)>) -> Vec<(f64, f64)> {
    pairs.into_iter().filter_map(|(a, b)| Some((a.value?, b.value?))).collect()
}

/// In how many pairs the second is larger, in words; `None` without pairs.
fn larger(what: &str, pairs: &[(f64, f64)], kind: &str) -> Option<String> {
    let holds = pairs.iter().filter(|(a, b)| b > a).count();
    (!pairs.is_empty()).then(|| format!("{what} in {holds} of {} {kind}", pairs.len()))
}

/// Three digits of the least and the largest value.
fn range(values: impl IntoIterator<Item = f64>, unit: &str) -> Option<String> {
    let (least, most) = values.into_iter().fold((f64::MAX, f64::MIN), |(l, m), v| (l.min(v), m.max(v)));
    let text = |v| wavelane_report::human(v, None, "");
    match (least <= most, text(least), text(most)) {
        (false, ..) => None,
        (_, least, most) if least == most => Some(format!("{least}{unit}")),
        (_, least, most) => Some(format!("{least} to {most}{unit}")),
    }
}

fn sentence(clauses: impl IntoIterator<Item = Option<String>>) -> String {
    let said: Vec<String> = clauses.into_iter().flatten().collect();
    let text = said.join("; ");
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| format!("{}{}.", first.to_uppercase(), letters.as_str()))
}

/// Of throughputs.
pub(super) fn throughput(rows: &[&Row]) -> String {
    sentence([
        larger("larger packets carry more", &ours(steps(rows, "size_bytes")), "steps"),
        larger("the largest window carries more than the smallest", &ours(ends(rows, "window")), "cases"),
        larger("RTS/CTS carries less", &ours(handshakes(rows)), "pairs"),
    ])
}

/// Of mean responses.
pub(super) fn response(rows: &[&Row]) -> String {
    let pairs = ours(handshakes(rows));
    let times =
        range(pairs.iter().filter(|(_, without)| *without > 0.0).map(|(with, without)| with / without), " times");
    let windows = ours(ends(rows, "window")).into_iter().filter(|(a, b)| a.min(*b) > 0.0);
    let most = windows.map(|(a, b)| (a / b).max(b / a)).fold(0.0, f64::max);
    sentence([
        times.map(|times| format!("with RTS/CTS responses take {times} as long as without")),
        (most > 0.0).then(|| {
            let most = wavelane_report::human(most, None, "");
            format!("the smallest and the largest window differ by at most {most} times")
        }),
    ])
}

/// Of what calls lose, by the bulk flow's window and the size of their datagrams.
pub(super) fn loss(rows: &[&Row]) -> String {
    let widest = rows.iter().filter_map(|row| number(row, "window")).fold(0.0, f64::max);
    let at = |wide: bool| rows.iter().filter(move |row| (number(row, "window") == Some(widest)) == wide);
    let below = range(at(false).filter_map(|row| row.value), " %");
    let behind = range(at(true).filter_map(|row| row.value), " %");
    let last: Vec<(&Row, &Row)> =
        steps(rows, "size_bytes").into_iter().filter(|(_, b)| number(b, "size_bytes") == Some(1000.0)).collect();
    let theirs = last.iter().filter_map(|(a, b)| Some(b.published? - a.published?)).collect::<Vec<_>>();
    let (theirs, own) = (range(theirs, ""), range(ours(last).into_iter().map(|(a, b)| b - a), ""));
    sentence([
        behind.map(|behind| format!("ours is {behind} behind a window of {widest}")),
        below.map(|below| format!("{below} behind smaller ones")),
        theirs.zip(own).map(|(theirs, own)| {
            format!("to 1000 B the document's grows by {theirs} percentage points, ours by {own}")
        }),
    ])
}

/// Of nodes by rank: what the last of a cell gets.
pub(super) fn ranks(rows: &[&Row]) -> String {
    let last = |of: fn(&Row) -> Option<f64>| {
        let least = |row: &&Row| {
            let same = rows.iter().filter(|r| r.case == row.case);
            same.filter_map(|r| of(r)).reduce(f64::min)
        };
        range(rows.iter().filter_map(least), "")
    };
    let theirs = last(|row| row.published)
        .map(|theirs| format!("{theirs} kbit/s in the document, whose cells are its least fair"));
    sentence([
        last(|row| row.value)
            .map(|ours| format!("the node with the least gets {ours} kbit/s, by rank over whole runs")),
        theirs,
    ])
}

/// Of a figure by the number of nodes.
pub(super) fn nodes(rows: &[&Row], unit: &str) -> String {
    let of = |row: &Row| {
        let value = wavelane_report::human(row.value?, None, "");
        Some(format!("{value} {unit} with {}", number(row, "nodes")?))
    };
    let said = ends(rows, "nodes").into_iter().next().and_then(|(a, b)| Some(format!("{}, {}", of(a)?, of(b)?)));
    sentence([said])
}

/// Of two queues: what 95 % of the calls' datagrams wait at most behind the widest window.
pub(super) fn waits(queues: &[(&str, Vec<&Row>)]) -> String {
    let all = || queues.iter().flat_map(|(_, rows)| rows);
    let widest = all().filter_map(|row| number(row, "window")).fold(0.0, f64::max);
    let of = |(queue, rows): &(&str, Vec<&Row>)| {
        let values = rows.iter().filter(|row| number(row, "window") == Some(widest)).filter_map(|row| row.value);
        range(values, " ms").map(|ms| format!("{ms} with {queue} beside a window of {widest}"))
    };
    sentence(queues.iter().map(of))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn row(id: &str, metric: &str, case: &[(&str, serde_json::Value)], value: f64, published: Option<f64>) -> Row {
        let mut row = Row::new(id, "sim", "tcp-2001", metric, "");
        row.case.extend(case.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
        Row { value: Some(value), published, ..row }
    }

    fn seen(rows: &[Row], by: impl Fn(&[&Row]) -> String) -> String {
        by(&rows.iter().collect::<Vec<_>>())
    }

    #[test]
    fn throughput_is_counted_by_size_window_and_handshake() {
        let cell = |size: u32, window: u32, column: &str, value: f64| {
            let case = [("size_bytes", json!(size)), ("window", json!(window)), ("column", json!(column))];
            row("S1-E1", "total_kbps", &case, value, None)
        };
        let rows = [
            cell(100, 1, "NR/F", 10.0),
            cell(500, 1, "NR/F", 20.0),
            cell(1000, 1, "NR/F", 15.0),
            cell(500, 10, "NR/F", 30.0),
            cell(500, 1, "R/F", 19.0),
            cell(1000, 1, "R/F", 16.0),
        ];
        let said = "Larger packets carry more in 1 of 3 steps; the largest window carries more than the smallest in 1 of 1 cases; \
                    RTS/CTS carries less in 1 of 2 pairs.";
        assert_eq!(seen(&rows, throughput), said);
        assert_eq!(seen(&rows[..1], throughput), "", "nothing to compare");
    }

    #[test]
    fn responses_are_compared_by_handshake_and_window() {
        let cell = |window: u32, column: &str, value: f64| {
            row("S1-E4", "response_mean_s", &[("window", json!(window)), ("column", json!(column))], value, None)
        };
        let rows = [cell(1, "NR/F", 1.0), cell(1, "R/F", 3.0), cell(10, "NR/F", 0.8), cell(10, "R/F", 1.2)];
        let said = "With RTS/CTS responses take 1.5 to 3 times as long as without; \
                    the smallest and the largest window differ by at most 2.5 times.";
        assert_eq!(seen(&rows, response), said);
    }

    #[test]
    fn losses_are_told_apart_by_the_widest_window_and_the_last_step() {
        let cell = |size: u32, window: u32, value: f64, theirs: f64| {
            let case = [("size_bytes", json!(size)), ("window", json!(window))];
            row("S1-E5", "loss_percent", &case, value, Some(theirs))
        };
        let rows = [cell(800, 1, 0.1, 0.3), cell(1000, 1, 0.0, 8.5), cell(800, 32, 4.0, 0.5), cell(1000, 32, 2.5, 8.2)];
        let said = "Ours is 2.5 to 4 % behind a window of 32; 0 to 0.1 % behind smaller ones; \
                    to 1000 B the document's grows by 7.7 to 8.2 percentage points, ours by -1.5 to -0.1.";
        assert_eq!(seen(&rows, loss), said);
    }

    #[test]
    fn the_node_with_the_least_is_named_for_both() {
        let cell = |window: u32, rank: u32, value: f64, theirs: f64| {
            row("S1-E2", &format!("rank{rank}_kbps"), &[("window", json!(window))], value, Some(theirs))
        };
        let rows = [cell(1, 1, 20.0, 30.0), cell(1, 2, 10.0, 0.0), cell(5, 1, 50.0, 90.0), cell(5, 2, 40.0, 0.63)];
        let said = "The node with the least gets 10 to 40 kbit/s, by rank over whole runs; \
                    0 to 0.63 kbit/s in the document, whose cells are its least fair.";
        assert_eq!(seen(&rows, ranks), said);
    }

    #[test]
    fn numbers_of_nodes_and_queues_have_a_sentence() {
        let cell = |key: &str, at: u32, value: f64| row("S1-E7", "total_kbps", &[(key, json!(at))], value, None);
        let rows = [cell("nodes", 5, 712.1), cell("nodes", 1, 721.07), cell("nodes", 20, 637.05)];
        assert_eq!(seen(&rows, |rows| nodes(rows, "kbit/s")), "721 kbit/s with 1, 637 kbit/s with 20.");
        let calls = [cell("window", 1, 5.0), cell("window", 1000, 24.0), cell("window", 1000, 134.6)];
        let queues = [("FQ-CoDel", vec![&calls[0], &calls[1]]), ("drop-tail", vec![&calls[2]])];
        let said = "24 ms with FQ-CoDel beside a window of 1000; 135 ms with drop-tail beside a window of 1000.";
        assert_eq!(waits(&queues), said);
        assert_eq!(waits(&[("drop-tail", Vec::new())]), "");
    }
}
