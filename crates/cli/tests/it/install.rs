//! `make install`: programs, manual pages, completions and the unit, under a prefix of the caller's choice.

use crate::common::Place;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

/// The Makefile's own commands, over programs that are built already: `cargo` does nothing here.
#[test]
fn make_install_puts_everything_under_the_prefix() {
    let has = |tool: &str| Command::new(tool).arg("--version").output().is_ok_and(|o| o.status.success());
    if let Some(missing) = ["make", "cc", "curl", "strip"].into_iter().find(|tool| !has(tool)) {
        eprintln!("SKIPPED ({missing} is missing): make install");
        return;
    }
    let root = std::fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).unwrap();
    let place = Place::new("prefix");
    let (built, tools) = (place.0.join("target/release"), place.0.join("home/.cargo/bin"));
    std::fs::create_dir_all(&built).unwrap();
    std::fs::create_dir_all(&tools).unwrap();
    symlink(root.join("packaging"), place.0.join("packaging")).unwrap();
    for program in ["wavelane", "wavelaned"] {
        symlink(env!("CARGO_BIN_EXE_wavelane"), built.join(program)).unwrap();
    }
    std::fs::write(tools.join("cargo"), "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(tools.join("cargo"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let o = Command::new("make")
        .arg("-s")
        .arg("-f")
        .arg(root.join("Makefile"))
        .args(["install", "PREFIX=/opt/wavelane"])
        .arg(format!("DESTDIR={}", place.0.join("into").display()))
        .current_dir(&place.0)
        .env("HOME", place.0.join("home"))
        .output()
        .unwrap();
    assert!(o.status.success(), "{}", String::from_utf8_lossy(&o.stderr));
    let into = place.0.join("into/opt/wavelane");
    for (file, part) in [
        ("share/man/man1/wavelane.1", "wavelane\\-run(1)"),
        ("share/man/man1/wavelane-sweep.1", "\\-\\-on\\-cluster"),
        ("share/man/man8/wavelaned.8", "SIGHUP"),
        ("share/bash-completion/completions/wavelane", "_wavelane()"),
        ("share/zsh/site-functions/_wavelane", "#compdef wavelane"),
        ("share/fish/vendor_completions.d/wavelane.fish", "complete -c wavelane"),
        ("lib/systemd/system/wavelaned.service", "ExecStart=/opt/wavelane/bin/wavelaned "),
        ("lib/sysusers.d/wavelane.conf", "wavelane"),
    ] {
        let text = std::fs::read_to_string(into.join(file)).unwrap_or_else(|e| panic!("{file}: {e}"));
        assert!(text.contains(part), "{file} lacks {part}");
    }
    for program in ["wavelane", "wavelaned"] {
        let o = Command::new(into.join("bin").join(program)).arg("--version").output().unwrap();
        assert!(o.status.success(), "{program}");
    }
}
