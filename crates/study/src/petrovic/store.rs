//! What each cell gave, kept in a small file per cell, so that an interrupted study goes on where it was.

use super::cell::{Cell, Figures};
use crate::StudyError;
use crate::cells::fingerprint;
use crate::observe::unwritable;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The file of a cell.
#[derive(Serialize, Deserialize)]
struct CellFile {
    /// The program's mark, the first seed, and the scenario.
    key: String,
    runs: Vec<Figures>,
}

/// Where results are kept.
pub(super) struct Store {
    folder: PathBuf,
    program: String,
    first_seed: u64,
}

impl Store {
    pub(super) fn open(folder: PathBuf, first_seed: u64) -> Result<Self, StudyError> {
        std::fs::create_dir_all(&folder).map_err(unwritable(&folder))?;
        Ok(Self { folder, program: fingerprint(), first_seed })
    }

    fn key(&self, cell: &Cell) -> String {
        format!("{} {}\n{}", self.program, self.first_seed, cell.text())
    }

    /// What this program found in this cell before, at least as many runs as asked for.
    pub(super) fn find(&self, cell: &Cell) -> Option<Vec<Figures>> {
        let text = std::fs::read(self.folder.join(format!("{}.json", cell.name()))).ok()?;
        let file: CellFile = serde_json::from_slice(&text).ok()?;
        let whole = file.key == self.key(cell) && file.runs.len() as u64 == cell.seeds;
        whole.then_some(file.runs)
    }

    /// Keeps what a cell gave beside the scenario that repeats it.
    pub(super) fn keep(&self, cell: &Cell, runs: Vec<Figures>) -> Result<Vec<Figures>, StudyError> {
        let scenario = self.folder.join(format!("{}.toml", cell.name()));
        std::fs::write(&scenario, cell.text()).map_err(unwritable(&scenario))?;
        let file = CellFile { key: self.key(cell), runs };
        let path = self.folder.join(format!("{}.json", cell.name()));
        let text = serde_json::to_string_pretty(&file).unwrap_or_default() + "\n";
        wavelane_run::write_whole(&path, text).map_err(unwritable(&path))?;
        Ok(file.runs)
    }
}
