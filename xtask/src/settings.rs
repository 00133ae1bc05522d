//! The guide's tables of declared settings, and the JSON schemas of the files in which they stand, rendered from `wavelane-settings`: no page
//! can disagree with what a file may say.

use crate::results::{filled, read};
use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;
use wavelane_settings::{File, GATEWAY, Group, Knob, LANE, LINK, PEER, PROXY, SIDE, TCP};

pub(crate) const USAGE: &str =
    "       cargo xtask settings            renders the guide's tables of settings and the schemas of the files";
/// What to do about a page that differs.
pub(crate) const REMEDY: &str = "run `cargo xtask settings`, and change settings in crates/settings only";
/// The pages with marks.
const PAGES: &[&str] =
    &["docs/guide/scenarios.md", "docs/guide/gateway.md", "docs/guide/lanes.md", "docs/guide/proxy.md"];
const BEGIN: &str = "<!-- settings: ";

/// The command.
pub(crate) fn command(root: &Path) -> ExitCode {
    let written = stale(root).and_then(|stale| {
        stale.iter().try_for_each(|(path, text)| {
            std::fs::write(root.join(path), text).map_err(|e| format!("cannot write {path}: {e}"))?;
            println!("settings: {path} written");
            Ok(())
        })
    });
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("settings: {error}");
            ExitCode::from(2)
        }
    }
}

/// The files that differ from the declarations, with the text that they should have.
pub(crate) fn stale(root: &Path) -> Result<Vec<(&'static str, String)>, String> {
    let mut all = vec![
        ("docs/schema/scenario-settings.schema.json", scenario_schema()),
        ("docs/schema/wavelaned-settings.schema.json", daemon_schema()),
    ];
    for path in PAGES {
        let page = read(&root.join(path))?;
        all.push((path, filled(&page, BEGIN, &table).map_err(|e| format!("{path}: {e}"))?));
    }
    all.retain(|(path, text)| std::fs::read_to_string(root.join(path)).ok().as_ref() != Some(text));
    Ok(all)
}

/// The table of that name.
fn table(name: &str) -> Result<String, String> {
    match name {
        // What stands in both files is described once, with wavelaned's.
        "[gateways.NAME]" => {
            Ok(rows(GATEWAY.0.iter().filter(|knob| !knob.stands.contains(&File::Daemon)), File::Scenario))
        }
        "[links.NAME]" => Ok(rows(LINK.in_file(File::Scenario), File::Scenario)),
        "[tcp]" => Ok(rows(TCP.in_file(File::Scenario), File::Scenario)),
        "[gateway]" => Ok(rows(GATEWAY.in_file(File::Daemon), File::Daemon)),
        "[[peer]]" => Ok(rows(PEER.in_file(File::Daemon), File::Daemon)),
        "[[peer.lane]]" => Ok(rows(LANE.in_file(File::Daemon), File::Daemon)),
        "[proxy]" => Ok(rows(PROXY.in_file(File::Daemon), File::Daemon)),
        "[[proxy.side]]" => Ok(rows(SIDE.in_file(File::Daemon), File::Daemon)),
        other => Err(format!("there are no settings of {other}")),
    }
}

fn rows<S: Default + 'static>(knobs: impl Iterator<Item = &'static Knob<S>>, file: File) -> String {
    let mut unset = S::default();
    let mut out = "| key | value | meaning |\n|---|---|---|\n".to_owned();
    for knob in knobs.filter(|knob| !knob.says.is_empty()) {
        let values = (knob.field)(&mut unset).values(&knob.bounds);
        let default = match values.split(", ").find(|value| *value == knob.default) {
            Some(word) => values.replacen(word, &format!("{word} (default)"), 1),
            None if knob.default.is_empty() => values,
            None if knob.default == "required" => format!("{values} (required)"),
            None => format!("{values} (default: {})", knob.default),
        };
        let _ = writeln!(out, "| `{}` | {default} | {} |", knob.key(file), knob.says);
    }
    out
}

/// A table's settings; keys that are no settings are not described. `needed` are those of them that it cannot do without.
fn object<S: Clone + Default>(group: &Group<S>, file: File, more: &[(&str, String)], needed: &[&str]) -> String {
    let mut unset = S::default();
    let named = group.in_file(file).filter(|knob| knob.default == "required").map(|knob| knob.key(file).into_owned());
    let needed: Vec<String> = needed.iter().map(|key| (*key).to_owned()).chain(named).collect();
    let required =
        if needed.is_empty() { String::new() } else { format!(", \"required\": {}", serde_json::Value::from(needed)) };
    let knobs = group.in_file(file).filter(|knob| !knob.says.is_empty());
    let mut all: Vec<String> = knobs
        .map(|knob| {
            let schema = (knob.field)(&mut unset).schema(&knob.bounds);
            let says = format!("{} ({})", knob.says, (knob.field)(&mut unset).values(&knob.bounds));
            format!("\"{}\": {{{schema}, \"description\": {}}}", knob.key(file), serde_json::Value::from(says))
        })
        .collect();
    all.extend(more.iter().map(|(key, schema)| format!("\"{key}\": {schema}")));
    format!("{{\"type\": \"object\"{required}, \"properties\": {{\n{}\n}}}}", all.join(",\n"))
}

fn document(title: &str, tables: &[(&str, String)]) -> String {
    let tables: Vec<String> = tables.iter().map(|(key, schema)| format!("\"{key}\": {schema}")).collect();
    format!(
        "{{\n\"$schema\": \"https://json-schema.org/draft/2020-12/schema\",\n\"title\": \"{title}\",\n\"type\": \"object\",\n\"properties\": {{\n{}\n}}\n}}\n",
        tables.join(",\n")
    )
}

fn scenario_schema() -> String {
    let named = |inner: String| format!("{{\"type\": \"object\", \"additionalProperties\": {inner}}}");
    let side =
        format!("{{\"type\": \"object\", \"properties\": {{\"tcp\": {}}}}}", object(&TCP, File::Scenario, &[], &[]));
    let sides = ("sides", format!("{{\"type\": \"array\", \"items\": {side}}}"));
    document(
        "Settings of a scenario: of gateways, of the links between them and of TCP",
        &[
            ("gateways", named(object(&GATEWAY, File::Scenario, &[sides], &[]))),
            ("links", named(object(&LINK, File::Scenario, &[], &[]))),
            ("tcp", object(&TCP, File::Scenario, &[], &[])),
        ],
    )
}

fn daemon_schema() -> String {
    let list = |inner: String| format!("{{\"type\": \"array\", \"items\": {inner}}}");
    let lanes = list(object(&LANE, File::Daemon, &[], &[]));
    let sides = list(object(&SIDE, File::Daemon, &[], &["name"]));
    document(
        "Settings of wavelaned's files: of a gateway, its peers and lanes, of a proxy and its sides",
        &[
            ("gateway", object(&GATEWAY, File::Daemon, &[], &["name", "key"])),
            ("peer", list(object(&PEER, File::Daemon, &[("lane", lanes)], &["name", "public_key"]))),
            ("proxy", object(&PROXY, File::Daemon, &[("side", sides)], &["interfaces"])),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the files say today is allowed by their schemas, and what no setting takes is not.
    #[test]
    fn schemas_are_json_with_every_key() {
        for (text, keys) in [
            (scenario_schema(), [GATEWAY.keys(File::Scenario), TCP.keys(File::Scenario), LINK.keys(File::Scenario)]),
            (daemon_schema(), [GATEWAY.keys(File::Daemon), LANE.keys(File::Daemon), PEER.keys(File::Daemon)]),
        ] {
            let read: serde_json::Value = serde_json::from_str(&text).expect("JSON");
            assert!(read["properties"].is_object());
            for key in keys.iter().flatten() {
                assert!(text.contains(&format!("\"{key}\": {{")), "{key}");
            }
        }
        let read: serde_json::Value = serde_json::from_str(&daemon_schema()).expect("JSON");
        let gateway = &read["properties"]["gateway"]["properties"];
        assert_eq!((&gateway["withhold"]["minimum"], &gateway["withhold"]["maximum"]), (&0.into(), &255.into()));
        assert_eq!(gateway["seal"]["enum"], serde_json::json!(["off", "end-to-end"]));
        assert_eq!(gateway["pool"]["pattern"], "^[0-9]+([.][0-9]+)? (B|kB|KiB|MB|MiB|GB|GiB)$");
        assert_eq!(gateway["idle"]["anyOf"][1]["const"], "off");
        assert_eq!(read["properties"]["gateway"]["required"], serde_json::json!(["name", "key"]));
        let links: serde_json::Value = serde_json::from_str(&scenario_schema()).expect("JSON");
        assert_eq!(links["properties"]["links"]["additionalProperties"]["required"], serde_json::json!(["lanes"]));
    }

    #[test]
    fn a_table_has_a_row_for_each_setting_of_its_file() {
        let table = table("[gateway]").expect("known");
        assert!(table.contains("| `withhold` | 0 to 255 (default: 0;") && !table.contains("overhear"), "{table}");
        assert!(super::table("[[peers]]").is_err());
    }
}
