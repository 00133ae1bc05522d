//! A picture in a page: a wide and a narrow version, of which the style sheet shows one.

use crate::ReportError;
use crate::plot::{Layout, NARROW, WIDE};
use crate::raster::Rasteriser;
use std::path::Path;

/// A picture's two SVG documents.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Drawn {
    wide: String,
    narrow: String,
}

impl Drawn {
    /// Draws both versions.
    pub(crate) fn new(svg: impl Fn(Layout) -> String) -> Self {
        Self { wide: svg(WIDE), narrow: svg(NARROW) }
    }
    /// Writes `NAME.svg` and `NAME.png` into a record's directory, which is created if necessary and no link: that of a record of
    /// others may lead anywhere.
    pub(crate) fn write(self, plots: &Path, name: &str, rasteriser: &Rasteriser) -> Result<Self, ReportError> {
        let unwritable =
            |path: &Path, e: std::io::Error| ReportError::Unwritable { path: path.into(), why: e.to_string() };
        if plots.is_symlink() {
            return Err(ReportError::Linked(plots.into()));
        }
        std::fs::create_dir_all(plots).map_err(|e| unwritable(plots, e))?;
        let png = rasteriser.png(&self.wide).map_err(|why| ReportError::Picture { picture: name.to_owned(), why })?;
        let png = png.as_deref().map(|png| ("png", png));
        for (ending, content) in [("svg", self.wide.as_bytes())].into_iter().chain(png) {
            let path = plots.join(format!("{name}.{ending}"));
            wavelane_run::write_whole(&path, content).map_err(|e| unwritable(&path, e))?;
        }
        Ok(self)
    }
    /// Both versions, for a page.
    pub(crate) fn html(&self) -> String {
        format!("<div class=\"wide\">\n{}</div>\n<div class=\"narrow\">\n{}</div>\n", self.wide, self.narrow)
    }
}

/// Writes `report.html` into a folder, which is created if necessary; returns its path.
pub(crate) fn write_report(folder: &Path, text: &str) -> Result<std::path::PathBuf, ReportError> {
    let path = folder.join("report.html");
    let written = std::fs::create_dir_all(folder).and_then(|()| wavelane_run::write_whole(&path, text));
    written.map(|()| path.clone()).map_err(|e| ReportError::Unwritable { path, why: e.to_string() })
}
