//! The folder of a comparison's page: which files `wavelane compare --out` writes there, and which are foreign.

use std::io::Read;
use std::path::{Path, PathBuf};
use wavelane_run::PICTURES;

/// The title of a comparison's page, which identifies it.
pub(crate) const TITLE: &str = "Records compared";
/// The title is searched in this many bytes from the beginning of a page.
const HEAD_MAX: u64 = 4096;

/// Whether a comparison writes a file of this name into its folder ("") or its `plots`.
fn is_ours(folder: &str, name: &str) -> bool {
    // Left by a program that was killed while writing the file.
    let name = name.strip_prefix('.').and_then(|name| name.strip_suffix(".draft")).unwrap_or(name);
    match (folder, name.rsplit_once('.')) {
        ("", _) => name == "report.html",
        ("plots", Some((stem, "svg" | "png"))) => PICTURES.contains(&stem),
        _ => false,
    }
}

/// Whether the folder's `report.html` is a comparison's page.
pub fn is_comparison(folder: &Path) -> bool {
    let page = folder.join("report.html");
    if !page.symlink_metadata().is_ok_and(|found| found.is_file()) {
        return false;
    }
    let mut head = Vec::new();
    let read = std::fs::File::open(page).and_then(|file| file.take(HEAD_MAX).read_to_end(&mut head));
    read.is_ok() && String::from_utf8_lossy(&head).contains(&format!("<title>{TITLE}</title>"))
}

/// Relative path of the first entry of a folder that no comparison wrote; any entry if the folder has no comparison's page.
pub fn foreign_to_comparison(folder: &Path) -> Option<PathBuf> {
    let ours = is_comparison(folder);
    wavelane_run::strangers(folder, if ours { &["plots"] } else { &[] }, |at, name| ours && is_ours(at, name))
}
