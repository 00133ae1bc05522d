//! Names the commit of the build, for `--version` and records' `environment.json`. Outside of a checkout there is the version alone, or
//! what `WAVELANE_COMMIT` says.

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

/// The commit of the checkout that these sources are in, `+changes` where they differ from it.
fn commit(root: &Path) -> Option<String> {
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
    let sources = ["status", "--porcelain", "--untracked-files=no", "--", "crates", "Cargo.toml", "Cargo.lock"];
    let changed = git(root, &sources).is_some_and(|list| !list.is_empty());
    Some(commit.chars().take(SHORT).collect::<String>() + if changed { "+changes" } else { "" })
}

fn main() {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let crates = Path::new(&variable("CARGO_MANIFEST_DIR").unwrap_or_default()).join("..");
    println!("cargo:rerun-if-env-changed=WAVELANE_COMMIT");
    for watched in ["", "../Cargo.toml", "../Cargo.lock"] {
        println!("cargo:rerun-if-changed={}", crates.join(watched).display());
    }
    let root = crates.join("..").canonicalize().ok();
    let commit = variable("WAVELANE_COMMIT").or_else(|| commit(&root?)).unwrap_or_default();
    let version = variable("CARGO_PKG_VERSION").unwrap_or_default();
    let version = if commit.is_empty() { version } else { format!("{version} ({commit})") };
    println!("cargo:rustc-env=WAVELANE_COMMIT={commit}");
    println!("cargo:rustc-env=WAVELANE_VERSION={version}");
}
