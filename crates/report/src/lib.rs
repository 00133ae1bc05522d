//! From a Record to tables, pictures and one self-contained page.
#![forbid(unsafe_code)]

mod axis;
mod curves;
mod graph;
mod html;
mod page;
mod plot;
mod radio;
mod raster;
mod study;
mod summary;
mod table;

pub use graph::{Graph, GraphSeries, Mark, draw_graphs};
pub use page::{Page, PageChart, PageCurve, PageTable, render_page};
pub use study::{Beside, Chart, Grid, StudyPage, render_study};
pub use summary::summary_text;

use std::path::{Path, PathBuf};
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
    #[error("cannot write {}: {why}; free space or make the record writable", path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// The system's words.
        why: String,
    },
    /// A picture cannot be drawn; a defect of this program.
    #[error("cannot draw {picture}: {why}; please report this with the record")]
    Picture {
        /// Which.
        picture: &'static str,
        /// Why.
        why: String,
    },
}

/// Writes `report.html` and `plots/*.svg`, `plots/*.png` into the Record directory; returns the page's path.
pub fn render(record: &Path) -> Result<PathBuf, ReportError> {
    let document = RunDocument::load(record)?;
    let scenario = Scenario::load(&record.join("scenario.toml"))?;
    let write = |path: PathBuf, content: &[u8]| {
        std::fs::write(&path, content)
            .map(|()| path.clone())
            .map_err(|e| ReportError::Unwritable { path, why: e.to_string() })
    };
    let plots = record.join("plots");
    std::fs::create_dir_all(&plots).map_err(|e| ReportError::Unwritable { path: plots.clone(), why: e.to_string() })?;
    let rasteriser = raster::Rasteriser::new();
    let mut drawn = Vec::new();
    for picture in curves::pictures(record, &document, &scenario)? {
        let svg = picture.plot.svg();
        let failed = |why| ReportError::Picture { picture: picture.name, why };
        let png = rasteriser.png(&svg).map_err(failed)?;
        write(plots.join(format!("{}.svg", picture.name)), svg.as_bytes())?;
        write(plots.join(format!("{}.png", picture.name)), &png)?;
        drawn.push((picture, svg));
    }
    write(record.join("report.html"), html::page(&document, &scenario, &drawn).as_bytes())
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
