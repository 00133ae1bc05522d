//! The document's questions to a cell of today: 802.11n with aggregates, CUBIC and BBR, FQ-CoDel with equal airtime at the
//! access point, pages of 2024, calls in G.711. In place of coding, rates follow the channel here; without that every
//! frame goes at the least coded one.

use super::cell::{Cell, Profile, Reading, Traffic};
use super::judge::{Cells, Found, across, geometric};
use super::quoted::{COLUMNS, Column};
use crate::document::Row;
use core::fmt::Write;
use serde_json::json;

/// Sizes of packets, of datagrams, and windows.
const SIZES: [u32; 3] = [100, 1000, 2000];
const VOICE_SIZES: [u32; 5] = [200, 500, 600, 800, 1000];
/// The last is more than any path here holds.
const WINDOWS: [u32; 3] = [1, 10, 1000];
const WEB_SIZES: [u32; 2] = [100, 1000];
/// With a window of one segment a page of today takes minutes.
const WEB_WINDOWS: [u32; 2] = [10, 1000];
/// Seconds that cells are measured.
const BULK_S: u64 = 10;
const WEB_S: u64 = 120;
const VOICE_S: u64 = 60;
/// The stations' signal over the noise, in dB: the last two seldom decode the fastest rate.
const DISTANCES: [i16; 5] = [30, 26, 23, 21, 19];
/// The noise, on a scale on which stations hear each other at 0 dB.
const NOISE: i16 = -20;
/// Drop-tail at the access point in the place of FQ-CoDel.
pub(super) const DROP_TAIL: &str = "drop-tail";
/// Below this score nearly everybody is dissatisfied (G.107, annex B: R of 60).
const POOR: f64 = 3.1;

/// Its cells, in the full edition or in the quick one.
pub(super) fn cells(full: bool) -> Vec<Cell> {
    let seeds = if full { 2 } else { 1 };
    let mut cells = Vec::new();
    for profile in Profile::TODAY {
        let reading = profile.reading();
        let mut add = |traffic, reading, sizes: &[u32], windows: &[u32], columns: &[Column]| {
            let seconds = match traffic {
                Traffic::Bulk => BULK_S,
                Traffic::Web => WEB_S,
                Traffic::Voice => VOICE_S,
            };
            let nodes = Cell::nodes_of(traffic);
            for (&size, &window) in sizes.iter().flat_map(|size| windows.iter().map(move |window| (size, window))) {
                let cell = |column: &Column| Cell {
                    traffic,
                    profile,
                    reading,
                    nodes,
                    size,
                    window,
                    column: *column,
                    seconds,
                    seeds,
                };
                cells.extend(columns.iter().map(cell));
            }
        };
        let widest = WINDOWS.len() - usize::from(!full);
        add(Traffic::Bulk, reading, &SIZES, &WINDOWS[..widest], &COLUMNS);
        add(Traffic::Web, reading, &WEB_SIZES[usize::from(!full)..], &WEB_WINDOWS, &COLUMNS);
        add(Traffic::Voice, reading, &VOICE_SIZES, &[1, 32, 1000], &COLUMNS[1..2]);
        let other = Reading { word: DROP_TAIL, ..reading };
        add(Traffic::Voice, other, &VOICE_SIZES[..1], &[1, 32, 1000], &COLUMNS[1..2]);
    }
    cells
}

/// The scenario of a cell.
pub(super) fn text(cell: &Cell) -> String {
    let segment = if cell.traffic == Traffic::Voice { 1_500 } else { cell.size };
    let mut out = format!("title = \"{}\"\nduration = \"{} s\"\n", cell.name(), cell.lasts_s());
    let _ = write!(
        out,
        "stacks = [\"{}\"]\n[tcp]\nsegment = \"{segment} B\"\nwindow = \"{} B\"\n[nodes]\nhost = \"endpoint\"\nap = \"router\"\n",
        cell.stack(),
        segment * cell.window
    );
    let stations: Vec<String> = (1..=cell.nodes).map(|s| format!("s{s}")).collect();
    for s in &stations {
        let _ = writeln!(out, "{s} = \"endpoint\"");
    }
    out += "[channels.wire]\nbetween = [\"host\", \"ap\"]\nreverse = \"same\"\n\
            forward = { rate = \"100 Mbit/s\", delay = \"10 ms\", queue = \"1000 packets\" }\n";
    let names: Vec<String> = stations.iter().map(|s| format!("\"{s}\"")).collect();
    let mcs = if cell.column.fec { "\"adaptive\"" } else { "7" };
    let _ = write!(
        out,
        "[channels.air]\nkind = \"wifi\"\nnodes = [\"ap\", {}]\nphy = \"802.11n\"\nmcs = {mcs}\naggregate = {{}}\n\
         noise = \"{NOISE} dB\"\nqueue = \"1000 packets\"\n",
        names.join(", ")
    );
    if cell.reading.word != DROP_TAIL {
        out += "queues = { ap = { kind = \"fq-codel\", airtime = true } }\n";
    }
    out += "pairs = [\n";
    for (station, distance) in stations.iter().zip(DISTANCES.iter().cycle()) {
        let signal = distance + NOISE;
        let _ =
            writeln!(out, "  {{ between = [\"ap\", \"{station}\"], hear = \"decode\", signal = \"{signal} dB\" }},");
    }
    out += "]\n";
    out + &cell.flows(false, "almanac-2024", "codec = \"g711\"\ndeadline = \"150 ms\"", |node| 10 * node)
}

/// The evidence of a profile's cells on the claims.
struct Today<'a> {
    profile: Profile,
    bulk: Cells<'a>,
    web: Cells<'a>,
    voice: Cells<'a>,
    drop_tail: Cells<'a>,
}

/// Pairs of a figure whose first should be the larger: a ratio per run, and how many of the means hold.
#[derive(Default)]
struct Pairs {
    per_run: Vec<f64>,
    holds: usize,
    of: usize,
}

impl Pairs {
    /// Of `pairs` of cells: the second over the first.
    fn of(pairs: &[(&Found, &Found)], figure: &str, larger: bool) -> Self {
        let runs = pairs.iter().flat_map(|(a, b)| [a.runs.len(), b.runs.len()]).min().unwrap_or(0);
        let ratio = |run: usize| {
            let of = |(a, b): &(&Found, &Found)| {
                let (a, b) = (a.runs[run].get(figure)?, b.runs[run].get(figure)?);
                (*a > 0.0 && *b > 0.0).then_some(b / a)
            };
            geometric(pairs.iter().filter_map(of))
        };
        let means: Vec<(f64, f64)> = pairs.iter().filter_map(|(a, b)| a.mean(figure).zip(b.mean(figure))).collect();
        let holds = means.iter().filter(|(a, b)| if larger { b > a } else { b < a }).count();
        Self { per_run: (0..runs).filter_map(ratio).collect(), holds, of: means.len() }
    }
    fn mean(&self) -> f64 {
        wavelane_measure::mean(&self.per_run).unwrap_or(f64::NAN)
    }
    /// Whether nearly all, most or few hold, and how many.
    fn verdict(&self) -> String {
        let word = match self.holds as f64 / self.of.max(1) as f64 {
            share if share >= 0.9 => "still holds",
            share if share > 0.5 => "holds in part",
            _ => "no longer holds",
        };
        format!("{word} ({} of {})", self.holds, self.of)
    }
}

impl<'a> Today<'a> {
    fn new(all: &'a [Found], profile: Profile) -> Self {
        let cells = |traffic, reading| Cells::new(all, profile, reading, traffic);
        Self {
            profile,
            bulk: cells(Traffic::Bulk, "default"),
            web: cells(Traffic::Web, "default"),
            voice: cells(Traffic::Voice, "default"),
            drop_tail: cells(Traffic::Voice, DROP_TAIL),
        }
    }
    fn row(&self, id: &'static str, metric: &str, unit: &str, values: &[f64], sentence: String) -> Option<Row> {
        let mut row = across(id, self.profile, metric, unit, values);
        row.why = sentence;
        row.value.is_some().then_some(row)
    }
    /// Cells of bulk that differ in `change` alone, where `keep` says so.
    fn pairs(
        cells: &Cells<'a>,
        keep: impl Fn(&Cell) -> bool,
        change: impl Fn(&Cell) -> (u32, u32, Column),
    ) -> Vec<(&'a Found, &'a Found)> {
        let kept = cells.found.iter().filter(|f| keep(&f.cell));
        kept.filter_map(|f| {
            let (size, window, column) = change(&f.cell);
            Some((*f, cells.get(size, window, column)?))
        })
        .collect()
    }
    fn of_bulk(&self) -> Vec<Row> {
        let kbps = "total_kbps";
        let with = |column: Column| Column { rts: true, ..column };
        let coded = |column: Column| Column { fec: true, ..column };
        let next = |size: u32| SIZES.into_iter().find(|s| *s > size).unwrap_or(0);
        let sizes = Self::pairs(&self.bulk, |_| true, |c| (next(c.size), c.window, c.column));
        let sizes = Pairs::of(&sizes, kbps, true);
        let windows = Self::pairs(&self.bulk, |c| c.window == 1, |c| (c.size, 10, c.column));
        let windows = Pairs::of(&windows, kbps, true);
        let fec = |size: u32, larger| {
            let keep = move |c: &Cell| !c.column.fec && c.size == size;
            Pairs::of(&Self::pairs(&self.bulk, keep, |c| (c.size, c.window, coded(c.column))), kbps, larger)
        };
        let (small, large) = (fec(100, false), fec(2000, true));
        let rts = Self::pairs(&self.bulk, |c| !c.column.rts, |c| (c.size, c.window, with(c.column)));
        let rts = Pairs::of(&rts, kbps, false);
        let starved = |rts: bool| -> f64 {
            let found = self.bulk.found.iter().filter(|f| f.cell.column.rts == rts);
            found.flat_map(|f| f.values("starved_10s")).sum()
        };
        let (with_rts, without) = (starved(true), starved(false));
        let few = with_rts > 1.5 * without;
        let rows = [
            self.row("S1-C1", "throughput_per_step_of_size", "ratio", &sizes.per_run, format!(
                "larger packets carry more: {}, {:.2} times for each step of 100, 1000 and 2000 B",
                sizes.verdict(), sizes.mean()
            )),
            self.row("S1-C1", "throughput_window_10_over_1", "ratio", &windows.per_run, format!(
                "larger windows carry more: {}, a window of 10 has {:.2} times that of 1", windows.verdict(), windows.mean()
            )),
            self.row("S1-C2", "coding_at_100_bytes", "ratio", &small.per_run, format!(
                "coding costs at 100 B: {}, rates that follow the channel carry {:.2} times the least coded one",
                small.verdict(), small.mean()
            )),
            self.row("S1-C3", "coding_at_2000_bytes", "ratio", &large.per_run, format!(
                "coding helps at 2000 B: {}, rates that follow the channel carry {:.2} times the least coded one",
                large.verdict(), large.mean()
            )),
            self.row("S1-C4", "rts_over_none", "ratio", &rts.per_run, format!(
                "RTS/CTS costs throughput: {}, it leaves {:.3} of it", rts.verdict(), rts.mean()
            )),
            self.row("S1-C6", "starved_with_rts", "node-windows of 10 s", &[with_rts], format!(
                "starved nodes have RTS/CTS: {}, {with_rts} with and {without} without it below a tenth of the mean over 10 s",
                if few { "still holds" } else { "no longer holds" }
            )),
        ];
        if self.bulk.found.is_empty() { Vec::new() } else { rows.into_iter().flatten().collect() }
    }
    fn of_web(&self) -> Option<Row> {
        let response = "response_mean_s";
        let coded: Vec<&Found> = self.web.found.iter().copied().filter(|f| f.cell.column == COLUMNS[1]).collect();
        let at = |f: &Found, column: &Column| self.web.get(f.cell.size, f.cell.window, *column);
        let mean = |f: &&Found| f.mean(response).unwrap_or(f64::INFINITY);
        let best = |f: &&'a Found| {
            let others = [COLUMNS[0], COLUMNS[2], COLUMNS[3]];
            let others = others.iter().filter_map(|column| at(f, column));
            Some((others.min_by(|a, b| mean(a).total_cmp(&mean(b)))?, *f))
        };
        let without = |f: &&'a Found| Some((at(f, &COLUMNS[3])?, *f));
        let pairs = Pairs::of(&coded.iter().filter_map(best).collect::<Vec<_>>(), response, false);
        let objects = Pairs::of(&coded.iter().filter_map(without).collect::<Vec<_>>(), "objects", true);
        self.row(
            "S1-C5",
            "response_over_best_other",
            "ratio",
            &pairs.per_run,
            format!(
                "responses are best with coding and without RTS/CTS: {}, those that came took {:.2} times the best of the \
                 others; readers got {:.2} times the objects that they get without coding",
                pairs.verdict(),
                pairs.mean(),
                objects.mean()
            ),
        )
    }
    fn of_voice(&self) -> Vec<Row> {
        let column = COLUMNS[1];
        let cell = |size, window| self.voice.get(size, window, column);
        let mean = |size, window, figure| cell(size, window).and_then(|f| f.mean(figure)).unwrap_or(f64::NAN);
        let windows = [1, 32, 1000];
        let mut best = Pairs { of: windows.len(), ..Pairs::default() };
        for window in windows {
            let mos = |size| mean(size, window, "mos");
            best.holds += usize::from(VOICE_SIZES[1..].iter().all(|size| mos(200) >= mos(*size)));
        }
        let scores = cell(200, 1000).map(|f| f.values("mos")).unwrap_or_default();
        let large = cell(1000, 32).map(|f| f.values("loss_percent")).unwrap_or_default();
        let score = mean(1000, 32, "mos");
        let behind = mean(200, 1000, "loss_percent");
        let harm = match behind {
            loss if loss < 1.0 => "is not put to the test",
            _ if mean(200, 1000, "mos") < POOR => "no longer holds",
            _ => "still holds",
        };
        let bulk = Pairs::of(&cell(800, 1000).zip(cell(800, 1)).into_iter().collect::<Vec<_>>(), "bulk_kbps", false);
        let late = |cells: &Cells<'_>| cells.mean(200, 1000, column, "delay_p95_ms").unwrap_or(f64::NAN);
        let (queued, tail) = (late(&self.voice), late(&self.drop_tail));
        let delays = self.drop_tail.get(200, 1000, column).map(|f| f.values("delay_p95_ms")).unwrap_or_default();
        let rows = [
            self.row("S1-C7", "mos_200_bytes", "MOS", &scores, format!(
                "voice is best in small packets: {}, 200 B scores {:.2} and 1000 B {:.2} beside a free bulk flow",
                best.verdict(), mean(200, 1000, "mos"), mean(1000, 1000, "mos")
            )),
            self.row("S1-C8", "loss_percent_at_1000_bytes", "%", &large, format!(
                "seven calls are almost impossible above 800 B: {}, 1000 B loses {:.3} % beside a window of 32 and scores {score:.2}",
                if score < POOR { "still holds" } else { "no longer holds" }, mean(1000, 32, "loss_percent")
            )),
            self.row("S1-C9", "mos_beside_bulk", "MOS", &scores, format!(
                "1 to 2 % of loss does no harm: {harm}, 200 B loses {behind:.3} % beside a free bulk flow and scores {:.2}",
                mean(200, 1000, "mos")
            )),
            self.row("S1-C10", "bulk_w1_over_w1000", "ratio", &bulk.per_run, format!(
                "a small window costs bulk throughput beside calls: {}, a window of 1 carries {:.3} of a free one",
                if bulk.mean() < 0.9 { "still holds" } else { "no longer holds" }, bulk.mean()
            )),
            self.row("S1-T1", "delay_p95_with_drop_tail", "ms", &delays, format!(
                "what FQ-CoDel with equal airtime is for: 95 % of a call's datagrams beside a free bulk flow take at most \
                 {queued:.1} ms with it and {tail:.1} ms with drop-tail of 1000 packets"
            )),
        ];
        if self.voice.found.is_empty() { Vec::new() } else { rows.into_iter().flatten().collect() }
    }
}

/// Every cell's figures, and a sentence for each claim.
pub(super) fn rows(all: &[Found]) -> Vec<Row> {
    let mut rows = Vec::new();
    for profile in Profile::TODAY {
        for found in all.iter().filter(|f| f.cell.profile == profile) {
            let (id, figures): (_, &[(&str, &str)]) = match found.cell.traffic {
                Traffic::Bulk => ("S1-E1", &[("total_kbps", "kbit/s"), ("jain", "index")]),
                Traffic::Web => (
                    "S1-E4",
                    &[
                        ("response_mean_s", "s"),
                        ("response_p50_s", "s"),
                        ("response_p95_s", "s"),
                        ("objects", "per run"),
                    ],
                ),
                Traffic::Voice => (
                    "S1-E5",
                    &[
                        ("loss_percent", "%"),
                        ("delay_p95_ms", "ms"),
                        ("jitter_ms", "ms"),
                        ("mos", "MOS"),
                        ("bulk_kbps", "kbit/s"),
                    ],
                ),
            };
            rows.extend(figures.iter().map(|(figure, unit)| found.row(id, figure, (figure, unit))));
        }
        let today = Today::new(all, profile);
        let mut claims = today.of_bulk();
        claims.extend(today.of_web());
        claims.extend(today.of_voice());
        claims.iter_mut().for_each(|row| drop(row.case.insert("claim".into(), json!(row.id.replace("S1-", "")))));
        rows.extend(claims);
    }
    rows
}
