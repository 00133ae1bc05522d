//! What a sweep leaves beside its records: the table twice, the document and the page.

use crate::sweep::render_sweep;
use crate::{ReportError, parquet};
use std::path::{Path, PathBuf};
use wavelane_run::{SWEEP_FORMAT, SweepAxis, SweepCell, SweepDocument, SweepRecord, Verdict, sweep_table, write_whole};
use wavelane_scenario::Axis;

/// A sweep whose records are there.
pub struct Swept<'a> {
    /// Its directory.
    pub out: &'a Path,
    /// The scenario as its user named it.
    pub scenario: &'a str,
    /// The page's title.
    pub title: &'a str,
    /// Where it ran.
    pub backend: &'a str,
    /// Seeds of each combination.
    pub repeat: u32,
    /// What varies.
    pub axes: &'a [Axis],
    /// Its combinations.
    pub cells: &'a [SweepCell],
    /// The command that repeats it.
    pub rerun: &'a str,
}

impl Swept<'_> {
    /// The verdict over all combinations.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        Verdict::total(self.cells.iter().map(|cell| cell.document.verdict))
    }

    fn document(&self) -> String {
        let axis = |a: &Axis| SweepAxis { key: a.key.clone(), values: a.values.clone() };
        let cell = |c: &SweepCell| SweepRecord {
            values: c.values.clone(),
            record: c.record.display().to_string(),
            verdict: c.document.verdict,
        };
        let document = SweepDocument {
            format: SWEEP_FORMAT.into(),
            scenario: self.scenario.to_owned(),
            backend: self.backend.into(),
            repeat: self.repeat,
            axes: self.axes.iter().map(axis).collect(),
            cells: self.cells.iter().map(cell).collect(),
            verdict: self.verdict(),
            csv: self.out.join("sweep.csv").display().to_string(),
            parquet: self.out.join("sweep.parquet").display().to_string(),
        };
        serde_json::to_string_pretty(&document).unwrap_or_default() + "\n"
    }

    /// Writes everything; returns the document and the page's path.
    pub fn write(&self) -> Result<(String, PathBuf), ReportError> {
        let put = |name: &str, content: &[u8]| {
            let path = self.out.join(name);
            write_whole(&path, content).map_err(|e| ReportError::Unwritable { path, why: e.to_string() })
        };
        let (table, document) = (sweep_table(self.axes, self.cells), self.document());
        put("sweep.csv", table.csv().as_bytes())?;
        put("sweep.parquet", &parquet(&table)?)?;
        put("sweep.json", document.as_bytes())?;
        let page = render_sweep(self.out, self.title, self.axes, self.cells, self.rerun)?;
        Ok((document, page))
    }
}
