//! The commit of a build, for the build scripts of the programs that name it. Outside of a checkout there is none, or what
//! `WAVELANE_COMMIT` says.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Characters of a commit that name it.
const SHORT: usize = 12;

/// What git prints; `None` without git, or outside of a checkout.
fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let out = Command::new("git")
        .arg("--no-optional-locks")
        .arg("-C")
        .arg(root)
        .args(arguments)
        .output()
        .ok()
        .filter(|out| out.status.success())?;
    Some(String::from_utf8_lossy(&out.stdout).trim().to_owned())
}

/// The commit of the checkout that these sources are in, `+changes` where `watched` differs from it.
fn commit(root: &Path, watched: &[String]) -> Option<String> {
    // Sources unpacked inside of another project's checkout have no commit.
    let top = git(root, &["rev-parse", "--show-toplevel"])?;
    if Path::new(&top).canonicalize().ok()? != root {
        return None;
    }
    for name in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(root, &["rev-parse", "--git-path", name]) {
            println!("cargo:rerun-if-changed={}", root.join(path).display());
        }
    }
    let commit = git(root, &["rev-parse", "HEAD"])?;
    let mut status = vec!["status", "--porcelain", "--untracked-files=no", "--"];
    status.extend(watched.iter().map(String::as_str));
    let changed = git(root, &status).is_some_and(|list| !list.is_empty());
    Some(commit.chars().take(SHORT).collect::<String>() + if changed { "+changes" } else { "" })
}

/// The crates of this workspace that a crate is made of, itself included.
fn parts(crates: &Path, name: &str, found: &mut BTreeSet<String>) {
    if !found.insert(name.to_owned()) {
        return;
    }
    let manifest = std::fs::read_to_string(crates.join(name).join("Cargo.toml")).unwrap_or_default();
    let (manifest, _) = manifest.split_once("[dev-dependencies]").unwrap_or((&manifest, ""));
    let ours = manifest.lines().filter_map(|line| line.strip_prefix("wavelane-")?.split(['.', ' ']).next());
    ours.for_each(|part| parts(crates, part, found));
}

/// Gives the package `WAVELANE_COMMIT` and `WAVELANE_VERSION`. What a program is not made of does not build it again.
pub(super) fn tell() {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let here = variable("CARGO_MANIFEST_DIR").unwrap_or_default();
    let (here, crates) = (Path::new(&here), Path::new(&here).join(".."));
    let mut found = BTreeSet::new();
    parts(&crates, &here.file_name().unwrap_or_default().to_string_lossy(), &mut found);
    let mut watched: Vec<String> = found.iter().map(|part| format!("crates/{part}")).collect();
    watched.extend(["Cargo.toml".to_owned(), "Cargo.lock".to_owned()]);
    println!("cargo:rerun-if-env-changed=WAVELANE_COMMIT");
    let root = crates.join("..").canonicalize().ok();
    let there = root.iter().flat_map(|root| watched.iter().map(|part| root.join(part))).filter(|path| path.exists());
    there.for_each(|path| println!("cargo:rerun-if-changed={}", path.display()));
    let commit = variable("WAVELANE_COMMIT").or_else(|| commit(&root?, &watched)).unwrap_or_default();
    let version = variable("CARGO_PKG_VERSION").unwrap_or_default();
    let version = if commit.is_empty() { version } else { format!("{version} ({commit})") };
    println!("cargo:rustc-env=WAVELANE_COMMIT={commit}");
    println!("cargo:rustc-env=WAVELANE_VERSION={version}");
}
