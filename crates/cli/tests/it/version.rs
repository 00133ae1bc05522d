//! The build that a record names.

use crate::common::{Place, out, smoke, wavelane};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

const VERSION: &str = env!("CARGO_PKG_VERSION");

#[test]
fn a_record_names_the_build_as_the_version_does() {
    let place = Place::new("record");
    let o = wavelane(&["run", &smoke(), "--out", &place.path("r")]);
    assert!(o.status.success());
    let environment: Value = serde_json::from_str(&place.read("r/environment.json")).unwrap();
    assert_eq!(environment["wavelane"], VERSION);
    let said = out(&wavelane(&["--version"]));
    let commit = environment["commit"].as_str().map_or(String::new(), |commit| format!(" ({commit})"));
    assert_eq!(said, format!("wavelane {VERSION}{commit}, wire version 1\n"));
}

/// What the build script says for sources in `folder`.
fn built_in(place: &Place, folder: &Path) -> String {
    let mut script = Command::new(place.0.join("script"));
    script.env("CARGO_MANIFEST_DIR", folder.join("crates/cli")).env("CARGO_PKG_VERSION", VERSION);
    out(&script.env_remove("WAVELANE_COMMIT").output().unwrap())
}

#[test]
fn sources_outside_of_a_checkout_have_their_version_alone() {
    let place = Place::new("script");
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("build.rs");
    let built = Command::new(rustc).args(["--edition", "2024", "-o"]).arg(place.0.join("script")).arg(source).status();
    if !built.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED (rustc is missing): the build script outside of a checkout");
        return;
    }
    let sources = place.0.join("parent/wavelane");
    std::fs::create_dir_all(sources.join("crates/cli")).unwrap();
    std::fs::create_dir_all(sources.join("crates/other")).unwrap();
    let alone = format!("cargo:rustc-env=WAVELANE_VERSION={VERSION}\n");
    let said = built_in(&place, &sources);
    assert!(said.ends_with(&alone), "{said}");
    let git = |folder: &Path, line: &[&str]| {
        let who = ["-c", "user.name=a", "-c", "user.email=a@b.example"];
        Command::new("git").arg("-C").arg(folder).args(who).args(line).output().is_ok_and(|o| o.status.success())
    };
    // Unpacked in another project's checkout.
    let (parent, empty) = (place.0.join("parent"), ["commit", "--quiet", "--allow-empty", "-m", "x"]);
    if !(git(&parent, &["init", "--quiet"]) && git(&parent, &empty)) {
        eprintln!("SKIPPED (git is missing): the build script in a checkout");
        return;
    }
    let said = built_in(&place, &sources);
    assert!(said.ends_with(&alone), "{said}");
    // A checkout of its own.
    assert!(git(&sources, &["init", "--quiet"]) && git(&sources, &empty));
    let said = built_in(&place, &sources);
    let commit = said.lines().find_map(|line| line.strip_prefix("cargo:rustc-env=WAVELANE_COMMIT=")).unwrap();
    assert!(commit.len() == 12 && commit.chars().all(|c| c.is_ascii_hexdigit()), "{said}");
    let write = |name: &str| {
        std::fs::write(sources.join(name), "").unwrap();
        assert!(git(&sources, &["add", name]));
    };
    write("crates/other/lib.rs");
    assert!(!built_in(&place, &sources).contains("+changes"), "no part of the program");
    write("Cargo.toml");
    assert!(built_in(&place, &sources).contains(&format!("WAVELANE_VERSION={VERSION} ({commit}+changes)")));
}
