//! Turns a Record into tables, pictures and one self-contained page, and a table into a Parquet file.
#![forbid(unsafe_code)]

mod axis;
mod compare;
mod compare_place;
mod curves;
mod dots;
mod drawn;
mod graph;
mod headline;
mod html;
mod legend;
mod line;
mod overlay;
mod page;
#[cfg(feature = "full")]
mod parquet;
mod people;
mod plot;
mod radio;
#[cfg_attr(not(feature = "full"), path = "no_raster.rs")]
mod raster;
mod single;
mod study;
mod summary;
mod sweep;
#[cfg(feature = "full")]
mod sweep_files;
mod sweep_looks;
mod sweep_tables;
mod table;
mod units;
mod words;

pub use compare::{COMPARED_MAX, Compared, Comparison, Difference, Estimate, compare_schema};
pub use compare_place::{foreign_to_comparison, is_comparison};
pub use dots::{Spread, SpreadRow};
pub use graph::{Graph, GraphSeries, Mark, draw_graphs};
pub use page::{Page, PageChart, PageCurve, PageTable, render_page};
#[cfg(feature = "full")]
pub use parquet::parquet;
pub use single::Single;
pub use study::{Beside, Chart, Curves, Grid, StudyPage, gathered, render_study};
pub use summary::summary_text;
pub use sweep::doubts as sweep_doubts;
#[cfg(feature = "full")]
pub use sweep_files::Swept;
pub use table::Table;
pub use units::{CommonUnit, human};
pub use wavelane_measure::mean_ci95;

use std::path::{Path, PathBuf};
use wavelane_base::text::ShownPath;
use wavelane_run::{RecordError, RunDocument};
use wavelane_scenario::{Scenario, ScenarioError};

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The Record is missing or damaged.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The Record's scenario is missing or damaged.
    #[error("{0} (the record's copy of the scenario; run the scenario again)")]
    Scenario(#[from] ScenarioError),
    /// A file cannot be written.
    #[error("cannot write {}: {why}; make the folder writable and its disk less full", path.shown())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// The system's error message.
        why: String,
    },
    /// A record's own folder is a link.
    #[error("{}: is a link, through which no pictures are written; remove it and repeat the command", .0.shown())]
    Linked(PathBuf),
    /// A picture cannot be drawn; a defect of this program.
    #[error("cannot draw {picture}: {why}; please report this with the record")]
    Picture {
        /// Which.
        picture: String,
        /// Why.
        why: String,
    },
    /// A table cannot be encoded; a defect of this program.
    #[error("cannot make a Parquet file: {0}; please report this, and use the CSV file meanwhile")]
    Parquet(String),
}

/// Writes `report.html` and `plots/*.svg`, `plots/*.png` into the Record directory; returns the page's path.
pub fn render(record: &Path) -> Result<PathBuf, ReportError> {
    let document = RunDocument::load(record)?;
    let scenario = Scenario::load_recorded(record)?;
    let rasteriser = raster::Rasteriser::new();
    let mut drawn = Vec::new();
    for picture in curves::pictures(record, &document, &scenario)? {
        drawn.push((picture.name, picture.write(&record.join("plots"), &rasteriser)?));
    }
    drawn::write_report(record, &html::page(&document, &scenario, &drawn))
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
