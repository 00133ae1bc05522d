//! The guide's tables of declared settings, and the JSON schemas of the files in which they stand, rendered from `wavelane-settings`: no page
//! can disagree with what a file may say.

use crate::results::{filled, read};
use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;
use wavelane_settings::{
    EDGE, FORWARD, File, GATEWAY, GATEWAY_TABLE, Group, INTERCEPT, Knob, LANE, LINK, MOBILITY, PEER, PROXY, SERIAL,
    SHAPER, SHAPERS, SIDE, SIDE_TABLE, TCP, TUN, TUNNEL,
};

pub(crate) const USAGE: &str =
    "       cargo xtask settings            renders the guide's tables of settings and the schemas of the files";
/// What to do about a page that differs.
pub(crate) const REMEDY: &str = "run `cargo xtask settings`, and change settings in crates/settings only";
/// The pages with marks.
const PAGES: &[&str] = &[
    "docs/guide/scenarios.md",
    "docs/guide/gateway.md",
    "docs/guide/lanes.md",
    "docs/guide/proxy.md",
    "docs/guide/serial.md",
];
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
    let rows = match name {
        // What stands in both files is described once, with wavelaned's.
        "[gateways.NAME]" => rows(GATEWAY.0.iter().filter(|knob| !knob.stands.contains(&File::Daemon)), File::Scenario),
        "[links.NAME]" => all(&LINK, File::Scenario),
        "[mobility.NAME]" => all(&MOBILITY, File::Scenario),
        "[tcp]" => all(&TCP, File::Scenario),
        "[gateway]" => all(&GATEWAY_TABLE, File::Daemon) + &all(&GATEWAY, File::Daemon),
        "[[peer]]" => all(&PEER, File::Daemon),
        "[[peer.lane]]" => all(&LANE, File::Daemon),
        "[[edge]]" => all(&EDGE, File::Daemon),
        "[intercept]" => all(&INTERCEPT, File::Daemon),
        "[tun]" => all(&TUN, File::Daemon),
        "[[forward]]" => all(&FORWARD, File::Daemon),
        "[[shaper]]" => all(&SHAPER, File::Daemon),
        "[serial]" => all(&SERIAL, File::Daemon),
        "[proxy]" => all(&PROXY, File::Daemon),
        "[[proxy.tunnel]]" => all(&TUNNEL, File::Daemon),
        "[[proxy.side]]" => all(&SIDE_TABLE, File::Daemon) + &all(&SIDE, File::Daemon),
        other => return Err(format!("there are no settings of {other}")),
    };
    Ok(format!("| key | value | meaning |\n|---|---|---|\n{rows}"))
}

fn all<S: Clone + Default>(group: &Group<S>, file: File) -> String {
    rows(group.in_file(file), file)
}

fn rows<S: Default + 'static>(knobs: impl Iterator<Item = &'static Knob<S>>, file: File) -> String {
    let mut unset = S::default();
    let mut out = String::new();
    for knob in knobs.filter(|knob| !knob.says.is_empty()) {
        let values = (knob.field)(&mut unset).values(&knob.bounds);
        let default = match values.split(", ").find(|value| *value == knob.default) {
            Some(word) => values.replacen(word, &format!("{word} (default)"), 1),
            None if knob.default.is_empty() || knob.default == "none" => values,
            None if knob.default.starts_with("required") => {
                format!("{values} ({})", knob.default.split(", ").next().unwrap_or_default())
            }
            None => format!("{values} (default: {})", knob.default),
        };
        let _ = writeln!(out, "| `{}` | {default} | {} |", knob.key(file), knob.says);
    }
    out
}

/// Properties of a table in the words of JSON schema, and which it cannot do without.
#[derive(Default)]
struct Keys {
    properties: Vec<String>,
    needed: Vec<String>,
}

impl Keys {
    fn with<S: Clone + Default>(mut self, group: &Group<S>, file: File) -> Self {
        let mut unset = S::default();
        for knob in group.in_file(file).filter(|knob| !knob.says.is_empty()) {
            let schema = (knob.field)(&mut unset).schema(&knob.bounds);
            let says = format!("{} ({})", knob.says, (knob.field)(&mut unset).values(&knob.bounds));
            let says = serde_json::Value::from(says);
            self.properties.push(format!("\"{}\": {{{schema}, \"description\": {says}}}", knob.key(file)));
            if knob.default == "required" || knob.default.starts_with("required, ") {
                self.needed.push(knob.key(file).into_owned());
            }
        }
        self
    }
    /// The tables below it of a name.
    fn below(mut self, key: &str, schema: &str) -> Self {
        self.properties.push(format!("\"{key}\": {schema}"));
        self
    }
    /// A table that may have other keys.
    fn open(self) -> String {
        self.table("")
    }
    /// A table that has no other keys.
    fn closed(self) -> String {
        self.table(", \"additionalProperties\": false")
    }
    fn table(self, more: &str) -> String {
        let needed = serde_json::Value::from(self.needed);
        let required =
            if needed == serde_json::json!([]) { String::new() } else { format!(", \"required\": {needed}") };
        let properties = self.properties.join(",\n");
        format!("{{\"type\": \"object\"{required}{more}, \"properties\": {{\n{properties}\n}}}}")
    }
}

fn of<S: Clone + Default>(group: &Group<S>, file: File) -> Keys {
    Keys::default().with(group, file)
}

fn list(inner: &str) -> String {
    format!("{{\"type\": \"array\", \"items\": {inner}}}")
}

/// Of a file with these keys above its tables.
fn document(title: &str, above: Keys, tables: &[(&str, String)]) -> String {
    let keys = tables.iter().fold(above, |keys, (key, schema)| keys.below(key, schema));
    format!(
        "{{\n\"$schema\": \"https://json-schema.org/draft/2020-12/schema\",\n\"title\": \"{title}\",\n\"type\": \"object\",\n\"properties\": {{\n{}\n}}\n}}\n",
        keys.properties.join(",\n")
    )
}

fn scenario_schema() -> String {
    let named = |inner: String| format!("{{\"type\": \"object\", \"additionalProperties\": {inner}}}");
    let tcp = of(&TCP, File::Scenario).open();
    let side = Keys::default().below("tcp", &tcp).open();
    document(
        "Settings of a scenario: of gateways, of the links between them, of mobiles and of TCP",
        Keys::default(),
        &[
            ("gateways", named(of(&GATEWAY, File::Scenario).below("sides", &list(&side)).open())),
            ("links", named(of(&LINK, File::Scenario).open())),
            ("mobility", named(of(&MOBILITY, File::Scenario).closed())),
            ("tcp", tcp),
        ],
    )
}

fn daemon_schema() -> String {
    const FILE: File = File::Daemon;
    let closed = |keys: Keys| list(&keys.closed());
    document(
        "wavelaned's files: of a gateway, of a proxy, of a shaper",
        of(&SHAPERS, FILE),
        &[
            ("gateway", of(&GATEWAY_TABLE, FILE).with(&GATEWAY, FILE).closed()),
            ("peer", closed(of(&PEER, FILE).below("lane", &closed(of(&LANE, FILE))))),
            ("intercept", of(&INTERCEPT, FILE).closed()),
            ("tun", of(&TUN, FILE).closed()),
            ("forward", closed(of(&FORWARD, FILE))),
            ("edge", closed(of(&EDGE, FILE))),
            ("serial", of(&SERIAL, FILE).closed()),
            (
                "proxy",
                of(&PROXY, FILE)
                    .below("side", &closed(of(&SIDE_TABLE, FILE).with(&SIDE, FILE)))
                    .below("tunnel", &closed(of(&TUNNEL, FILE)))
                    .closed(),
            ),
            ("shaper", closed(of(&SHAPER, FILE))),
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
        assert_eq!(read["properties"]["tun"]["additionalProperties"], false);
        assert_eq!(read["properties"]["log"]["enum"][0], "info", "above a shaper's tables");
        let shaper = &read["properties"]["shaper"]["items"];
        assert_eq!(shaper["required"], serde_json::json!(["interface", "rate"]));
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
