//! Arrows between rooms, from `cargo metadata` against `arrows.toml`.

use super::Finding;
use std::collections::BTreeMap;

/// What `arrows.toml` says.
pub(crate) struct Rules {
    rooms: BTreeMap<String, Vec<String>>,
    pure: Vec<String>,
    may_be_unsafe: Vec<String>,
    impure_crates: Vec<String>,
    /// Of a room, its modules from the ground up.
    floors: BTreeMap<String, Vec<String>>,
    pure_folders: Vec<String>,
}

impl Rules {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let table: toml::Table = text.parse().map_err(|e| format!("arrows.toml: {e}"))?;
        let section = |name: &str| {
            table.get(name).and_then(toml::Value::as_table).ok_or_else(|| format!("arrows.toml: [{name}] is missing"))
        };
        let words = |value: &toml::Value, what: &str| -> Result<Vec<String>, String> {
            let list = value.as_array().ok_or_else(|| format!("arrows.toml: {what} is not a list of names"))?;
            let word = |v: &toml::Value| v.as_str().map(str::to_owned);
            list.iter().map(word).collect::<Option<_>>().ok_or_else(|| format!("arrows.toml: {what} holds a non-name"))
        };
        let mut rooms = BTreeMap::new();
        for (room, list) in section("rooms")? {
            rooms.insert(room.clone(), words(list, room)?);
        }
        let permissions = section("permissions")?;
        let permission = |name: &str| {
            permissions
                .get(name)
                .ok_or_else(|| format!("arrows.toml: permissions.{name} is missing"))
                .and_then(|list| words(list, name))
        };
        let (pure, may_be_unsafe) = (permission("pure")?, permission("unsafe")?);
        let (impure_crates, pure_folders) =
            (permission("impure-crates")?, permission("pure-folders").unwrap_or_default());
        let mut floors = BTreeMap::new();
        for (room, list) in section("floors").unwrap_or(&toml::Table::new()) {
            floors.insert(room.clone(), words(list, room)?);
        }
        let known = |name: &String| rooms.contains_key(name);
        if let Some(stray) = rooms.values().flatten().chain(&pure).chain(&may_be_unsafe).find(|name| !known(name)) {
            return Err(format!("arrows.toml: '{stray}' is not a room: add it to [rooms] or correct the name"));
        }
        Ok(Self { rooms, pure, may_be_unsafe, impure_crates, floors, pure_folders })
    }

    /// Whether `room` may hold no clock, thread, socket and so on.
    pub(crate) fn is_pure(&self, room: &str) -> bool {
        self.pure.iter().any(|r| r == room)
    }
    /// Whether a file of another room may hold none either.
    pub(crate) fn is_pure_file(&self, path: &str) -> bool {
        self.pure_folders
            .iter()
            .any(|folder| path.strip_prefix(folder.as_str()).is_some_and(|rest| rest.starts_with(['/', '.'])))
    }
    /// The modules of `room` that stand in an order, from the ground up.
    pub(crate) fn floors(&self, room: &str) -> &[String] {
        self.floors.get(room).map_or(&[], Vec::as_slice)
    }
    /// Whether `room` may hold `unsafe`.
    pub(crate) fn may_be_unsafe(&self, room: &str) -> bool {
        self.may_be_unsafe.iter().any(|r| r == room)
    }
}

/// The room of a package: its name without the prefix.
fn room_of(package: &str) -> &str {
    package.strip_prefix("wavelane-").unwrap_or(package)
}

/// Checks all dependencies of the packages in `metadata` (the JSON of `cargo metadata --no-deps`).
///
/// `read` gives a manifest's text by its path from the root, to name lines.
pub(crate) fn check(rules: &Rules, metadata: &str, read: &dyn Fn(&str) -> String) -> Result<Vec<Finding>, String> {
    let json: serde_json::Value = serde_json::from_str(metadata).map_err(|e| format!("cargo metadata: {e}"))?;
    let root = json["workspace_root"].as_str().ok_or("cargo metadata names no workspace_root")?;
    let packages = json["packages"].as_array().ok_or("cargo metadata names no packages")?;
    let ours: Vec<&str> = packages.iter().filter_map(|p| p["name"].as_str()).collect();
    let mut findings = Vec::new();
    for package in packages {
        let (Some(name), Some(manifest)) = (package["name"].as_str(), package["manifest_path"].as_str()) else {
            return Err("cargo metadata names a package without name or manifest".into());
        };
        let path = manifest.strip_prefix(root).unwrap_or(manifest).trim_start_matches('/');
        let room = room_of(name);
        let Some(allowed) = rules.rooms.get(room) else {
            findings.push(Finding::refuse(
                path,
                1,
                format!("package '{name}' has no line in arrows.toml"),
                "add it to xtask/arrows.toml with what it may import, or make it a module of an existing room",
            ));
            continue;
        };
        let text = read(path);
        for dependency in package["dependencies"].as_array().map(Vec::as_slice).unwrap_or_default() {
            let Some(target) = dependency["name"].as_str() else { continue };
            let kind = dependency["kind"].as_str().unwrap_or("normal");
            let line = line_of(&text, target, kind);
            if ours.contains(&target) {
                let to = room_of(target);
                if !allowed.iter().any(|a| a == to) {
                    findings.push(Finding::refuse(
                        path,
                        line,
                        format!("'{room}' may not import '{to}' ({kind} dependency)"),
                        "move the code to a room that may, or put the test into the upper room",
                    ));
                }
            } else if rules.is_pure(room) && rules.impure_crates.iter().any(|c| c == target) {
                findings.push(Finding::refuse(
                    path,
                    line,
                    format!("pure room '{room}' depends on '{target}' ({kind} dependency)"),
                    "hand in what it provides: system calls live in host, clocks and dice come from the driver",
                ));
            }
        }
    }
    Ok(findings)
}

/// The line of a manifest that names `dependency` in a section of `kind`, or 1.
fn line_of(manifest: &str, dependency: &str, kind: &str) -> usize {
    let wanted = match kind {
        "dev" => "dev-dependencies",
        "build" => "build-dependencies",
        _ => "dependencies",
    };
    let mut in_section = false;
    for (i, line) in manifest.lines().enumerate() {
        let line = line.trim();
        if let Some(section) = line.strip_prefix('[') {
            let name = section.trim_end_matches(']');
            in_section = name == wanted || name.ends_with(&format!(".{wanted}"));
            if name.ends_with(&format!("{wanted}.{dependency}")) {
                return i + 1;
            }
        } else if in_section && line.strip_prefix(dependency).is_some_and(|rest| rest.starts_with([' ', '.', '='])) {
            return i + 1;
        }
    }
    1
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
    use super::*;

    const ARROWS: &str = r#"
        [rooms]
        base = []
        wire = ["base"]
        channel = ["base"]
        [permissions]
        pure = ["base", "channel"]
        unsafe = []
        impure-crates = ["libc"]
    "#;

    fn metadata(name: &str, dependencies: &str) -> String {
        format!(
            r#"{{"workspace_root": "/w", "packages": [
                {{"name": "wavelane-base", "manifest_path": "/w/crates/base/Cargo.toml", "dependencies": []}},
                {{"name": "wavelane-wire", "manifest_path": "/w/crates/wire/Cargo.toml", "dependencies": []}},
                {{"name": "{name}", "manifest_path": "/w/crates/x/Cargo.toml", "dependencies": [{dependencies}]}}]}}"#
        )
    }
    fn findings(name: &str, dependencies: &str, manifest: &'static str) -> Vec<String> {
        let rules = Rules::parse(ARROWS).unwrap();
        let found = check(&rules, &metadata(name, dependencies), &|_| manifest.to_owned()).unwrap();
        found.iter().map(Finding::to_string).collect()
    }

    #[test]
    fn unlisted_arrows_are_refused_in_every_kind_of_dependency() {
        let manifest =
            "[package]\n[dependencies]\nwavelane-base.workspace = true\n\n[dev-dependencies]\nwavelane-wire = {}\n";
        let allowed = r#"{"name": "wavelane-base", "kind": null}"#;
        assert_eq!(findings("wavelane-channel", allowed, manifest), [] as [&str; 0]);
        for (kind, word, line) in [("null", "normal", 1), (r#""dev""#, "dev", 6), (r#""build""#, "build", 1)] {
            let found =
                findings("wavelane-channel", &format!(r#"{{"name": "wavelane-wire", "kind": {kind}}}"#), manifest);
            assert_eq!(found.len(), 1);
            let start =
                format!("crates/x/Cargo.toml:{line}: 'channel' may not import 'wire' ({word} dependency); move");
            assert!(found[0].starts_with(&start), "{}", found[0]);
        }
    }

    #[test]
    fn a_pure_room_depends_on_nothing_impure() {
        let libc = r#"{"name": "libc", "kind": null}, {"name": "thiserror", "kind": null}"#;
        let manifest = "[dependencies]\nthiserror = \"2\"\nlibc = \"0.2\"\n";
        let found = findings("wavelane-channel", libc, manifest);
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("Cargo.toml:3: pure room 'channel' depends on 'libc'"), "{}", found[0]);
        assert!(findings("wavelane-wire", libc, manifest).is_empty(), "only pure rooms are bound by this");
    }

    #[test]
    fn a_package_without_a_line_is_refused() {
        let found = findings("wavelane-extras", "", "");
        assert!(found[0].contains("'wavelane-extras' has no line in arrows.toml"), "{found:?}");
    }

    #[test]
    fn arrows_to_rooms_that_do_not_exist_are_refused() {
        let error = Rules::parse(&ARROWS.replace(r#"wire = ["base"]"#, r#"wire = ["bass"]"#)).err().unwrap();
        assert!(error.contains("'bass' is not a room"), "{error}");
        assert!(Rules::parse("[rooms]").err().unwrap().contains("[permissions] is missing"));
    }

    #[test]
    fn the_committed_table_is_the_one_of_the_design() {
        let rules = Rules::parse(include_str!("../../arrows.toml")).unwrap();
        assert_eq!(rules.rooms["channel"], ["base", "queue"]);
        assert_eq!(
            rules.rooms["daemon"],
            [
                "base",
                "wire",
                "settings",
                "serial",
                "queue",
                "tcp",
                "transport",
                "services",
                "gateway",
                "door",
                "measure",
                "host"
            ]
        );
        assert!(rules.rooms["base"].is_empty());
        // No arrow points up: every room may import only what some order puts before it.
        let mut placed: Vec<&str> = Vec::new();
        while placed.len() < rules.rooms.len() {
            let ready = |list: &[String]| list.iter().all(|r| placed.contains(&r.as_str()));
            let next = rules.rooms.iter().find(|(room, list)| !placed.contains(&room.as_str()) && ready(list));
            placed.push(next.expect("arrows.toml has a cycle").0);
        }
    }
}
