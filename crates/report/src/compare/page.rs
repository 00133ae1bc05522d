//! The page of a comparison: findings, tables and overlaid pictures.

use super::words::{about, letter};
use super::{Compared, Comparison};
use crate::overlay::{legends, overlaid, whole};
use crate::page::{First, Page, PageTable, write_page};
use crate::{ReportError, raster};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use wavelane_run::shell;

impl Comparison {
    /// Writes `report.html` and `plots/` into `folder`, which will become `out`; returns the page's path, or `None` once `stop` is set.
    pub fn render(
        &self,
        folder: &Path,
        out: &Path,
        records: &[Compared],
        stop: &AtomicBool,
    ) -> Result<Option<PathBuf>, ReportError> {
        let stopped = || stop.load(Ordering::Relaxed);
        let rasteriser = raster::Rasteriser::new();
        let mut drawn = Vec::new();
        let (pictures, by_dash) = overlaid(records, &stopped)?;
        for picture in pictures {
            if stopped() {
                return Ok(None);
            }
            drawn.push(picture.write(&folder.join("plots"), &rasteriser)?);
        }
        if stopped() {
            return Ok(None);
        }
        let tables = (1..self.names.len()).map(|record| {
            let table = self.table(record);
            let heads = table.heads.iter().map(|head| (*head).to_owned()).collect();
            PageTable { title: self.title(record), heads, rows: table.rows }
        });
        let places = self.names.iter().zip(records).enumerate();
        let names = places.map(|(i, (name, r))| format!("{}: {name} ({})", letter(i), about(r)));
        let findings: Vec<String> = (1..self.names.len()).filter_map(|record| self.findings(record)).collect();
        let page = Page {
            title: crate::compare_place::TITLE.into(),
            headline: match whole(records).map(|r| crate::headline::headline(&r.document, &r.scenario)) {
                Some(sentences) if !sentences.is_empty() => sentences.join(" "),
                _ => self.headline().unwrap_or_else(|| self.how()),
            },
            grade: None,
            verdict: None,
            sentences: names
                .chain(self.warnings.iter().cloned())
                .chain(findings.iter().cloned())
                .chain((!findings.is_empty()).then(|| self.how()))
                .chain((!drawn.is_empty() && whole(records).is_none()).then(|| legends(records.len(), by_dash)))
                .collect(),
            charts: Vec::new(),
            tables: tables.filter(|table| !table.rows.is_empty()).collect(),
            rerun: {
                let named = if whole(records).is_some() { &records[..1] } else { records };
                let names: Vec<String> = named.iter().map(|r| shell(&r.record.to_string_lossy())).collect();
                format!("wavelane compare {} --out {}", names.join(" "), shell(&out.to_string_lossy()))
            },
        };
        write_page(folder, &page, &drawn, First::Tables).map(Some)
    }
}
