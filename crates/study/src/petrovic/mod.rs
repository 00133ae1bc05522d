//! Bulk, web and voice over 802.11: the study of Petrovic and Aboelaze, beside their tables.
//!
//! Two profiles (`2001`, fitted to the document, and `modern`) run every cell; every other reading of what the document
//! leaves open runs Table 1. `docs/decisions/0031-petrovic.md` says what came out.

mod cell;
mod claims;
mod judge;
mod page;
mod physics;
mod quoted;
mod seen;
mod store;
mod today;

pub(crate) use page::{charts, grids, shown};

use crate::document::{Edition, StudyDocument};
use crate::elsewhere::{Travel, read};
use crate::runner::Runner;
use crate::{Setup, StudyError};
use cell::{Cell, Figures, Profile, Reading, SWITCHES, Traffic, switched};
use judge::Found;
use quoted::{COLUMNS, Column, SIZES, VOICE_SIZES, VOICE_WINDOWS, WINDOWS};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::atomic::AtomicBool;
use store::Store;
use wavelane_run::RunError;

/// The study's id.
pub(crate) const ID: &str = "petrovic";
/// Its parts: Table 1 with fairness, web responses, voice, numbers of nodes, other readings, and a cell of today.
pub(crate) const PARTS: [&str; 6] = ["bulk", "web", "voice", "nodes", "readings", "today"];
/// The reading by which voice is judged: coding that mends nearly every error.
const VOICE_READING: &str = "residual 1.6e-6";
/// Numbers of nodes.
const NODES: [u32; 5] = [1, 2, 5, 10, 20];

/// How much of it is run: seeds of each part, and the windows and sizes of the other readings.
struct Extent {
    bulk: u64,
    web: u64,
    voice: u64,
    nodes: u64,
    readings: u64,
    sizes: &'static [u32],
    windows: &'static [u32],
}

const QUICK: Extent =
    Extent { bulk: 2, web: 1, voice: 1, nodes: 1, readings: 1, sizes: &[100, 1000, 2000], windows: &[1, 10] };
const FULL: Extent = Extent { bulk: 10, web: 10, voice: 10, nodes: 10, readings: 2, sizes: &SIZES, windows: &WINDOWS };

/// Seconds that bulk, web and voice cells are measured.
const BULK_S: u64 = 60;
const WEB_S: u64 = 300;
const VOICE_S: u64 = 150;

/// Cells over sizes, windows and columns.
fn grid(
    traffic: Traffic,
    profile: Profile,
    reading: Reading,
    (sizes, windows): (&[u32], &[u32]),
    seeds: u64,
) -> Vec<Cell> {
    let seconds = match traffic {
        Traffic::Bulk => BULK_S,
        Traffic::Web => WEB_S,
        Traffic::Voice => VOICE_S,
    };
    let columns: &[Column] = if traffic == Traffic::Voice { &[Column { rts: false, fec: true }] } else { &COLUMNS };
    let nodes = Cell::nodes_of(traffic);
    let mut cells = Vec::new();
    for &size in sizes {
        for &window in windows {
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
    }
    cells
}

/// Every cell of the parts wanted.
fn cells(edition: Edition, wants: impl Fn(&str) -> bool) -> Vec<Cell> {
    let extent = if edition == Edition::Full { FULL } else { QUICK };
    let mut cells = Vec::new();
    for profile in Profile::BOTH {
        let reading = profile.reading();
        if wants("bulk") {
            cells.extend(grid(Traffic::Bulk, profile, reading, (&SIZES, &WINDOWS), extent.bulk));
        }
        if wants("web") {
            cells.extend(grid(Traffic::Web, profile, reading, (&[100, 1000], &WINDOWS), extent.web));
        }
        if wants("voice") {
            let mends = SWITCHES.iter().find(|(word, _)| *word == VOICE_READING).map(|s| switched(profile, s));
            let readings = [mends, (profile == Profile::Y2001).then_some(reading)];
            for reading in readings.into_iter().flatten() {
                cells.extend(grid(Traffic::Voice, profile, reading, (&VOICE_SIZES, &VOICE_WINDOWS), extent.voice));
            }
        }
    }
    if wants("nodes") {
        for traffic in [Traffic::Bulk, Traffic::Web] {
            let reading = Reading { word: "nodes", ..Profile::Y2001.reading() };
            let of = |nodes: &u32| Cell {
                nodes: *nodes,
                ..grid(traffic, Profile::Y2001, reading, (&[1000], &[10]), extent.nodes)[3]
            };
            cells.extend(NODES.iter().map(of));
        }
    }
    if wants("readings") {
        for switch in &SWITCHES {
            let reading = switched(Profile::Y2001, switch);
            cells.extend(grid(Traffic::Bulk, Profile::Y2001, reading, (extent.sizes, extent.windows), extent.readings));
        }
    }
    if wants("today") {
        cells.extend(today::cells(edition == Edition::Full));
    }
    cells
}

/// The cell of readers, or of calls, that `simulator-speed` times: in the document's default reading, without RTS/CTS.
pub(crate) fn speed_cell(web: bool, seconds: u64) -> String {
    let (traffic, sizes, windows) = if web { (Traffic::Web, 1000, 5) } else { (Traffic::Voice, 200, 8) };
    let profile = Profile::Y2001;
    let cells = grid(traffic, profile, profile.reading(), (&[sizes], &[windows]), 1);
    cells.last().map(|cell| Cell { seconds, ..*cell }.text()).unwrap_or_default()
}

/// Cells of a batch that travels.
const BATCH: usize = 4;

/// A cell of an edition, as it travels.
#[derive(Serialize, Deserialize)]
pub(crate) struct Task {
    edition: Edition,
    cell: String,
    first_seed: u64,
}

/// Runs a cell on a worker.
pub(crate) fn work(task: &Task, cancelled: &AtomicBool) -> Result<Vec<Figures>, StudyError> {
    let all = cells(task.edition, |_| true);
    let cell = all.iter().find(|cell| cell.name() == task.cell);
    let none = || RunError::Refused(format!("study {ID} has no cell '{}'", task.cell));
    cell.ok_or_else(none)?.run(task.first_seed, cancelled)
}

/// Runs the edition's cells and judges them.
pub(crate) fn run(setup: &Setup<'_>) -> Result<StudyDocument, StudyError> {
    let Setup { options, hooks, .. } = *setup;
    let store = Store::open(options.out.join(ID), options.seed.0)?;
    let runner = Runner { what: "scenarios", workers: options.workers(), hooks };
    let found = |cell: &Cell| Some(Found { cell: *cell, runs: store.find(cell)? });
    let first_seed = options.seed.0;
    let kept = |cell: &Cell, runs| Ok(Found { cell: *cell, runs: store.keep(cell, runs)? });
    let work = |cell: &Cell| kept(cell, cell.run(first_seed, hooks.cancelled)?);
    let travel = Travel {
        study: ID,
        batch: BATCH,
        pack: &|cell: &Cell| json!(Task { edition: options.edition, cell: cell.name(), first_seed }),
        unpack: &|cell, value| kept(cell, read(value)?),
    };
    let cells = cells(options.edition, |part| options.wants(part));
    let all = runner.run_anywhere(options.elsewhere.as_ref(), &cells, Cell::cost, found, work, &travel)?;
    let rows = judge::rows(&all);
    rows.iter().filter(|row| row.verdict != wavelane_run::Verdict::Info).for_each(options.row);
    Ok(StudyDocument::new(ID, options.edition, options.seed.0, rows))
}

#[cfg(test)]
mod tests;
