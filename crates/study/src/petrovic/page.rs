//! The pictures of the study: ours beside the document's.

use super::cell::Profile;
use super::quoted::COLUMNS;
use super::seen;
use super::today::DROP_TAIL;
use crate::document::{Row, StudyDocument};
use wavelane_report::{Beside, Chart, Curves, Grid};
use wavelane_run::Verdict;

/// What is judged, claimed or across cells; the cells themselves are in the tables.
pub(crate) fn shown(document: &StudyDocument) -> Vec<&Row> {
    document.rows.iter().filter(|row| row.verdict != Verdict::Info || !row.case.contains_key("window")).collect()
}

pub(super) fn word<'a>(row: &'a Row, key: &str) -> &'a str {
    row.case.get(key).and_then(|v| v.as_str()).unwrap_or_default()
}

pub(super) fn number(row: &Row, key: &str) -> Option<f64> {
    row.case.get(key)?.as_f64()
}

/// Rows of a metric in the cells of a profile and reading.
fn of<'a>(
    document: &'a StudyDocument,
    (id, metric): (&'a str, &'a str),
    (profile, reading): (Profile, &'a str),
) -> impl Iterator<Item = &'a Row> {
    document.rows.iter().filter(move |row| {
        row.id == id
            && row.metric == metric
            && word(row, "profile") == profile.word()
            && word(row, "reading") == reading
            && row.stack.starts_with(profile.stack())
    })
}

/// Ours and the document's over one key of the case, for rows that `keep` names.
fn pair<'a>(rows: impl Iterator<Item = &'a Row>, key: &str, name: &str) -> [(String, Vec<(f64, f64)>); 2] {
    let rows: Vec<&Row> = rows.collect();
    let points = |value: fn(&Row) -> Option<f64>| {
        rows.iter().filter_map(|row| Some((number(row, key)?, value(row)?))).collect::<Vec<_>>()
    };
    [(format!("{name}, ours"), points(|row| row.value)), (format!("{name}, document"), points(|row| row.published))]
}

fn chart(name: &'static str, title: String, labels: [&str; 2], curves: Curves) -> Chart {
    Chart::new(name, title, labels, curves.into_iter().filter(|(_, points)| !points.is_empty()).collect())
}

/// The title of a picture, and the sentence of what to see.
fn titled(what: &str, see: &str) -> String {
    if see.is_empty() { what.to_owned() } else { format!("{what}. {see}") }
}

/// What each node carries in the cells of Table 2, by rank: five bars for each cell, side by side.
fn nodes_chart(document: &StudyDocument) -> Chart {
    let cells: Vec<&Row> = of(document, ("S1-E2", "jain"), (Profile::Y2001, "default")).collect();
    let mut curves = vec![("document".to_owned(), Vec::new()), ("ours, mean by rank".to_owned(), Vec::new())];
    let mut names = Vec::new();
    for (place, cell) in cells.iter().enumerate() {
        let (size, window) = (number(cell, "size_bytes"), number(cell, "window"));
        names.push(format!("{} B W {}", size.unwrap_or_default(), window.unwrap_or_default()));
        for rank in 1..=5 {
            let metric = format!("rank{rank}_kbps");
            let same = |row: &&Row| row.id == "S1-E2" && row.metric == metric && row.case == cell.case;
            let Some(row) = document.rows.iter().find(same) else { continue };
            let x = (place * 6 + rank) as f64;
            curves[0].1.extend(row.published.map(|y| (x, y)));
            curves[1].1.extend(row.value.map(|y| (x + 0.25, y)));
        }
    }
    let rows = document.rows.iter().filter(|row| row.metric.starts_with("rank") && word(row, "profile") == "2001");
    let title = titled("Nodes by rank", &seen::ranks(&rows.collect::<Vec<_>>()));
    let x = format!("five nodes by rank: {}", names.join(", "));
    Chart { bars: true, ..chart("nodes-2001", title, [&x, "kbit/s"], curves) }
}

/// Throughput by packet size, response by window, voice loss by size, and nodes by rank.
pub(crate) fn charts(document: &StudyDocument) -> Vec<Chart> {
    let mut charts = Vec::new();
    let names =
        [["throughput-2001", "response-2001", "loss-2001"], ["throughput-modern", "response-modern", "loss-modern"]];
    for (profile, [throughput, response, loss]) in Profile::BOTH.into_iter().zip(names) {
        let all = (profile, "default");
        let column = |id: &'static str, metric: &'static str, key: &'static str, at: f64, over: &'static str| {
            COLUMNS
                .iter()
                .flat_map(move |c| {
                    let rows = of(document, (id, metric), all);
                    let here = rows.filter(move |row| word(row, "column") == c.word() && number(row, key) == Some(at));
                    pair(here, over, c.word())
                })
                .collect::<Vec<_>>()
        };
        let title = |text: &str, see: String| titled(&format!("{text}, profile {}", profile.word()), &see);
        let at = |id: &'static str, metric: &'static str, key: &'static str, at: f64| {
            of(document, (id, metric), all).filter(move |row| number(row, key) == Some(at)).collect::<Vec<_>>()
        };
        charts.push(chart(
            throughput,
            title(
                "Throughput by packet size, window of 10",
                seen::throughput(&at("S1-E1", "total_kbps", "window", 10.0)),
            ),
            ["packet (bytes)", "total (kbit/s)"],
            column("S1-E1", "total_kbps", "window", 10.0, "size_bytes"),
        ));
        charts.push(chart(
            response,
            title(
                "Responses by window, packets of 1000 B",
                seen::response(&at("S1-E4", "response_mean_s", "size_bytes", 1000.0)),
            ),
            ["window (segments)", "mean response (s)"],
            column("S1-E4", "response_mean_s", "size_bytes", 1000.0, "window"),
        ));
        let calls = || of(document, ("S1-E5", "loss_percent"), (profile, super::VOICE_READING));
        let voice = [1.0, 8.0, 32.0].into_iter().flat_map(|window| {
            let rows = calls().filter(move |row| number(row, "window") == Some(window));
            pair(rows, "size_bytes", &format!("W {window}"))
        });
        charts.push(chart(
            loss,
            title("Voice lost or late, by datagram", seen::loss(&calls().collect::<Vec<_>>())),
            ["datagram (bytes)", "lost or late (%)"],
            voice.collect(),
        ));
    }
    for (name, metric, what, unit) in [
        ("throughput-nodes", "total_kbps", "Throughput by number of nodes", "kbit/s"),
        ("response-nodes", "response_mean_s", "Mean response by number of nodes", "s"),
    ] {
        let rows: Vec<&Row> = of(document, ("S1-E7", metric), (Profile::Y2001, "nodes")).collect();
        let points = rows.iter().filter_map(|row| Some((number(row, "nodes")?, row.value?)));
        let curve = ("tcp-2001".to_owned(), points.collect());
        let title = titled(what, &seen::nodes(&rows, unit));
        charts.push(chart(name, title, ["nodes", unit], vec![curve]));
    }
    charts.push(nodes_chart(document));
    charts.extend(of_today(document));
    charts
}

/// The cell of today: throughput by size, and what a call waits by window behind either queue.
fn of_today(document: &StudyDocument) -> Vec<Chart> {
    let curve = |rows: Vec<&Row>, key: &str, name: String| {
        let points = rows.iter().filter_map(|row| Some((number(row, key)?, row.value?)));
        (name, points.collect::<Vec<_>>())
    };
    let mut carried = Vec::new();
    for column in COLUMNS {
        let rows = of(document, ("S1-E1", "total_kbps"), (Profile::Cubic, "default"));
        let here = rows.filter(|row| word(row, "column") == column.word() && number(row, "window") == Some(10.0));
        carried.push(curve(here.collect(), "size_bytes", column.word().to_owned()));
    }
    let mut waits = Vec::new();
    for profile in Profile::TODAY {
        for (reading, queue) in [("default", "FQ-CoDel"), (DROP_TAIL, "drop-tail")] {
            let rows = of(document, ("S1-E5", "delay_p95_ms"), (profile, reading));
            let here = rows.filter(|row| number(row, "size_bytes") == Some(200.0));
            waits.push(curve(here.collect(), "window", format!("{}, {queue}", profile.stack())));
        }
    }
    let rows = of(document, ("S1-E1", "total_kbps"), (Profile::Cubic, "default"));
    let see = seen::throughput(&rows.filter(|row| number(row, "window") == Some(10.0)).collect::<Vec<_>>());
    let carried = chart(
        "throughput-today",
        titled("802.11n, CUBIC, throughput by packet size, window of 10", &see),
        ["packet (bytes)", "total (kbit/s)"],
        carried,
    );
    let behind = [("default", "FQ-CoDel"), (DROP_TAIL, "drop-tail")].map(|(reading, queue)| {
        let rows = Profile::TODAY.into_iter().flat_map(|p| of(document, ("S1-E5", "delay_p95_ms"), (p, reading)));
        (queue, rows.filter(|row| number(row, "size_bytes") == Some(200.0)).collect())
    });
    let waits = chart(
        "calls-today",
        titled("802.11n, calls in 200 B: within what time 95 % arrive", &seen::waits(&behind)),
        ["window of the bulk flow (segments)", "95 % arrive within (ms)"],
        waits,
    );
    [carried, Chart { x_log: true, ..waits }].into_iter().filter(|chart| !chart.curves.is_empty()).collect()
}

/// The sentence about a table, from its rows.
type See<'a> = &'a dyn Fn(&[&Row]) -> String;

/// A table: rows of one metric by two keys of their case, and the column that says which cell they are of.
fn grid<'a>(
    (title, see): (String, See<'_>),
    rows: impl Iterator<Item = &'a Row>,
    label: impl Fn(&Row) -> String,
    head: impl Fn(&Row) -> String,
) -> Option<Grid> {
    let rows: Vec<&Row> = rows.collect();
    let names = |of: &dyn Fn(&Row) -> String| {
        let mut names: Vec<String> = Vec::new();
        for row in &rows {
            let name = of(row);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    };
    let (labels, heads) = (names(&label), names(&head));
    let cell = |of: &str, at: &str| {
        let found = rows.iter().find(|row| label(row) == of && head(row) == at);
        let (theirs, ours) = (found.and_then(|row| row.published), found.and_then(|row| row.value));
        Beside { theirs, ours, half: found.and_then(|row| row.ci95) }
    };
    let line = |of: &String| (of.clone(), heads.iter().map(|at| cell(of, at)).collect());
    let lines: Vec<_> = labels.iter().map(line).collect();
    let heads = std::iter::once(String::new()).chain(heads.iter().cloned()).collect();
    (!lines.is_empty()).then(|| Grid { title, see: see(&rows), heads, rows: lines })
}

/// The document's tables, ours beside them, and what each reading does to Table 1.
pub(crate) fn grids(document: &StudyDocument) -> Vec<Grid> {
    let size = |row: &Row| format!("{} B", number(row, "size_bytes").unwrap_or_default());
    let window = |row: &Row| format!("W {}", number(row, "window").unwrap_or_default());
    let column = |row: &Row| word(row, "column").to_owned();
    let cell = |row: &Row| format!("{}, {}", size(row), window(row));
    let mut grids = Vec::new();
    for profile in Profile::BOTH {
        let all = (profile, "default");
        let fitted = if profile == Profile::Y2001 { " (fitted to the document)" } else { "" };
        let title = |text: &str| format!("{text}, profile {}{fitted}", profile.word());
        let bulk = of(document, ("S1-E1", "total_kbps"), all);
        grids.push(grid((title("Table 1: total of five flows, kbit/s"), &seen::throughput), bulk, cell, column));
        let nodes = document.rows.iter().filter(|row| {
            row.id == "S1-E2" && row.metric.starts_with("rank") && word(row, "profile") == profile.word()
        });
        let of_cell = |row: &Row| format!("{}, {}", cell(row), column(row));
        let node = |row: &Row| row.metric.replace("_kbps", "");
        grids.push(grid((title("Table 2: nodes by rank, kbit/s"), &seen::ranks), nodes, of_cell, node));
        for (id, table) in [
            ("S1-E3", "Table 3: mean response with 100-byte packets, s"),
            ("S1-E4", "Table 4: with 1000-byte packets, s"),
        ] {
            let rows = of(document, (id, "response_mean_s"), all);
            grids.push(grid((title(table), &seen::response), rows, window, column));
        }
        let rows = of(document, ("S1-E5", "loss_percent"), (profile, super::VOICE_READING));
        grids.push(grid((title("Table 5: voice lost or late, %"), &seen::loss), rows, window, size));
    }
    let rows = of(document, ("S1-E5", "loss_percent"), (Profile::Y2001, "default"));
    let see = |_: &[&Row]| {
        "Table 1 is fitted with a residual bit error rate of 5.7e-4, Table 5 judged with 1.6e-6: no reading gives both."
            .to_owned()
    };
    let title = "Table 5 with the residual of Table 1, profile 2001, %".to_owned();
    grids.push(grid((title, &see), rows, window, size));
    for profile in Profile::TODAY {
        let see = |rows: &[&Row]| {
            let kinds = "F: rates follow the channel, NF: MCS 7 always";
            format!("802.11n, equal airtime. {kinds}. {}", seen::throughput(rows))
        };
        let rows = of(document, ("S1-E1", "total_kbps"), (profile, "default"));
        let title = format!("A cell of today, total of five flows, kbit/s, {}", profile.stack());
        grids.push(grid((title, &see), rows, cell, column));
        let rows = of(document, ("S1-E4", "response_mean_s"), (profile, "default"));
        let title = format!("A cell of today, mean response, s, {}", profile.stack());
        grids.push(grid((title, &seen::response), rows, cell, column));
        let rows = of(document, ("S1-E5", "loss_percent"), (profile, "default"));
        let title = format!("A cell of today, voice lost or late, %, {}", profile.stack());
        grids.push(grid((title, &seen::loss), rows, window, size));
    }
    let moved = document.rows.iter().filter(|row| row.metric == "over_default_reading");
    let see = |_: &[&Row]| "Total of each column over that of the default reading of profile 2001.".to_owned();
    let reading = |row: &Row| word(row, "reading").to_owned();
    grids.push(grid(("Other readings of Table 1".into(), &see), moved, reading, column));
    grids.into_iter().flatten().collect()
}
