//! House rules that a compiler does not know. Each prints where, what and the remedy.

mod arrows;
mod code;
mod form;
mod pages;
mod source;
mod waits;

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Folders that hold nothing of ours.
const SKIPPED: &[&str] = &["target", "node_modules", "records"];
/// Largest file that is read as text.
const TEXT_MAX: u64 = 4 << 20;

/// Whether a finding fails the check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Severity {
    Warn,
    Refuse,
}

/// A broken rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Finding {
    pub(crate) severity: Severity,
    /// Relative to the root, with forward slashes.
    pub(crate) path: String,
    /// From 1.
    pub(crate) line: usize,
    pub(crate) what: String,
    pub(crate) remedy: &'static str,
}

impl Finding {
    pub(crate) fn refuse(path: &str, line: usize, what: impl Into<String>, remedy: &'static str) -> Self {
        Self { severity: Severity::Refuse, path: path.into(), line, what: what.into(), remedy }
    }
    pub(crate) fn warn(path: &str, line: usize, what: impl Into<String>, remedy: &'static str) -> Self {
        Self { severity: Severity::Warn, ..Self::refuse(path, line, what, remedy) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.severity {
            Severity::Warn => "warning: ",
            Severity::Refuse => "",
        };
        write!(f, "{}:{}: {word}{}; {}", self.path, self.line, self.what, self.remedy)
    }
}

/// Checks the tree at `root` and prints what is wrong; false if something must be mended.
pub(crate) fn run(root: &Path) -> Result<bool, String> {
    let mut files = Vec::new();
    collect(root, root, &mut files)?;
    files.sort();

    let rules = read(root, "xtask/arrows.toml").and_then(|text| arrows::Rules::parse(&text))?;
    let mut findings = arrows::check(&rules, &metadata(root)?, &|path| read(root, path).unwrap_or_default())?;
    let decisions = read(root, pages::DECISIONS)?;
    let terms = pages::terms(&read(root, pages::TERMS)?);
    let mut types = Vec::new();
    let (mut octets, mut seconds, mut lines) = (0, 0, 0);
    for path in &files {
        if path.ends_with(".rs") {
            let text = read(root, path)?;
            findings.extend(source::check(&rules, path, &text));
            findings.extend(form::check(path, &text));
            lines += source::code_lines(path, &text);
            types.extend(source::public_types(path, &text).into_iter().map(|(line, name)| (path.clone(), line, name)));
            if source::is_test_file(path) {
                let (taken, silent) = waits::check(path, &text);
                seconds += taken;
                findings.extend(silent);
            }
        } else if path.ends_with(".md") {
            let text = read(root, path)?;
            octets += if pages::is_bounded(path) { text.len() } else { 0 };
            findings.extend(pages::check(path, &text, &|target| root.join(target).exists()));
            findings.extend(pages::unlisted(path, &decisions));
        }
    }
    findings.extend(pages::too_long(octets));
    findings.extend(waits::too_long(seconds));
    findings.extend(source::too_much(lines));
    findings.extend(source::ambiguous(&terms, &types));
    findings.extend(crate::results::stale(root)?.iter().map(|(path, _)| {
        Finding::refuse(path, 1, "its tables of results differ from docs/results", crate::results::REMEDY)
    }));
    findings.extend(
        crate::settings::stale(root)?.iter().map(|(path, _)| {
            Finding::refuse(path, 1, "it differs from the declared settings", crate::settings::REMEDY)
        }),
    );
    findings.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    for finding in &findings {
        println!("{finding}");
    }
    let refused = findings.iter().filter(|f| f.severity == Severity::Refuse).count();
    let warnings = findings.len() - refused;
    println!(
        "tidy: {} files, {refused} refused, {warnings} warnings; {lines} lines of code in crates/ without tests; {seconds} s of real time in tests",
        files.len()
    );
    Ok(refused == 0)
}

/// All files below `folder` that may hold text of ours, relative to `root`.
fn collect(root: &Path, folder: &Path, files: &mut Vec<String>) -> Result<(), String> {
    let wrong = |error| format!("cannot list {}: {error}; run it in a readable checkout", folder.display());
    for entry in std::fs::read_dir(folder).map_err(wrong)? {
        let entry = entry.map_err(wrong)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let kind = entry.file_type().map_err(wrong)?;
        if kind.is_dir() {
            if !name.starts_with('.') && !SKIPPED.contains(&name.as_str()) {
                collect(root, &entry.path(), files)?;
            }
        } else if kind.is_file() && (name.ends_with(".rs") || name.ends_with(".md")) {
            let path: PathBuf = entry.path();
            let relative = path.strip_prefix(root).unwrap_or(&path);
            files.push(relative.to_string_lossy().replace('\\', "/"));
        }
    }
    Ok(())
}

fn read(root: &Path, path: &str) -> Result<String, String> {
    let full = root.join(path);
    let size = std::fs::metadata(&full).map_err(|e| format!("cannot read {path}: {e}"))?.len();
    if size > TEXT_MAX {
        return Err(format!("{path} has {size} bytes, more than {TEXT_MAX}: text files of ours are short"));
    }
    std::fs::read_to_string(&full).map_err(|e| format!("cannot read {path}: {e}; text files are UTF-8"))
}

/// What `cargo metadata` says of the workspace's own packages.
fn metadata(root: &Path) -> Result<String, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root)
        .output()
        .map_err(|e| format!("cannot start cargo metadata: {e}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    String::from_utf8(output.stdout).map_err(|e| format!("cargo metadata is not UTF-8: {e}"))
}
