//! Markdown of a study's result: the table of its section, and its row in a table of all.

use serde_json::Value;

/// Rows of one study's table; how many more there are is said below it.
const ROWS_MAX: usize = 6;
/// Rows that passed are added up to so many rows.
const ROWS_WANTED: usize = 4;
/// Characters of a row's reason.
const WHY_MAX: usize = 90;
/// Figures of a study in a table of all, where the list names none.
const FIGURES: usize = 2;

/// Which page a block is for: links differ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Page {
    Readme,
    Guide,
}

/// A study as the list has it, with its result if one is committed.
#[derive(Debug)]
pub(crate) struct Study {
    pub(crate) id: String,
    /// What is measured, without figures.
    about: String,
    /// The published experiment that it repeats.
    source: Option<String>,
    /// Where its causes are told: a link's words and a path from the root.
    page: (String, String),
    /// The rows that stand first, with the words around their value.
    figures: Vec<Figure>,
    pub(crate) document: Option<Value>,
}

/// A row by some of its fields, and words in which `{}` is its value.
#[derive(Debug)]
struct Figure {
    text: String,
    fields: toml::Table,
}

impl Study {
    /// One table of the list.
    pub(crate) fn parse(table: &toml::Value) -> Result<Self, String> {
        let text = |key: &str| table.get(key).and_then(toml::Value::as_str).map(str::to_owned);
        let id = text("id").ok_or("a [[study]] has no id")?;
        let needed = |key: &str| text(key).ok_or(format!("`{id}` has no {key}"));
        let (about, path) = (needed("about")?, needed("page")?);
        let name = path.rsplit('/').next().unwrap_or_default();
        let words = name.split(['-', '.']).next().unwrap_or(name).to_owned();
        let list = table.get("figures").and_then(toml::Value::as_array).cloned().unwrap_or_default();
        let figures: Result<Vec<Figure>, String> = list.iter().map(|figure| Figure::parse(&id, figure)).collect();
        Ok(Self { about, source: text("source"), page: (words, path), figures: figures?, document: None, id })
    }

    fn rows(&self) -> &[Value] {
        self.document.as_ref().and_then(|d| d["rows"].as_array()).map_or(&[], Vec::as_slice)
    }

    /// The rows that the list names, with their words.
    fn figures(&self) -> Result<Vec<(&Value, &str)>, String> {
        let found = self.figures.iter().map(|figure| {
            let row = self.rows().iter().find(|row| figure.is_of(row));
            row.map(|row| (row, figure.text.as_str())).ok_or_else(|| {
                format!("docs/results/{}.json has no row for \"{}\" of docs/results/rows.toml", self.id, figure.text)
            })
        });
        found.collect()
    }

    /// "fail (quick): 2 of 49 judged rows fail, 1 is inconclusive".
    fn verdict(&self) -> String {
        let Some(document) = &self.document else { return "no result committed".into() };
        let count = |verdict: &str| self.rows().iter().filter(|row| row["verdict"] == verdict).count();
        let (pass, fail, open) = (count("pass"), count("fail"), count("inconclusive"));
        let mut counts = vec![format!("of {} judged rows {pass} pass", pass + fail + open)];
        counts.extend((fail > 0).then(|| format!("{fail} fail")));
        counts.extend((open > 0).then(|| format!("{open} inconclusive")));
        let word = |key: &str| document[key].as_str().unwrap_or_default();
        let parts: Vec<&str> = document["parts"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let parts = if parts.is_empty() { String::new() } else { format!("; only {}", parts.join(", ")) };
        let draws = document["draws"].as_str().map_or(String::new(), |draws| format!("; draws {draws}"));
        format!("{} ({}{parts}{draws}): {}", word("verdict"), word("edition"), counts.join(", "))
    }
}

impl Figure {
    fn parse(id: &str, figure: &toml::Value) -> Result<Self, String> {
        let mut fields = figure.as_table().cloned().ok_or(format!("`{id}`: a figure is no table"))?;
        let text = fields.remove("text").and_then(|text| text.as_str().map(str::to_owned));
        let text = text.filter(|text| text.contains("{}")).ok_or(format!("`{id}`: a figure has no text with {{}}"))?;
        Ok(Self { text, fields })
    }

    fn is_of(&self, row: &Value) -> bool {
        self.fields.iter().all(|(key, wanted)| match wanted {
            toml::Value::Table(case) => case.iter().all(|(key, wanted)| is(&row["case"][key], wanted)),
            wanted => is(&row[key], wanted),
        })
    }
}

fn is(value: &Value, wanted: &toml::Value) -> bool {
    match wanted {
        toml::Value::String(text) => value == text.as_str(),
        toml::Value::Integer(number) => value.as_f64() == Some(*number as f64),
        toml::Value::Float(number) => value.as_f64() == Some(*number),
        toml::Value::Boolean(word) => value == &Value::Bool(*word),
        _ => false,
    }
}

/// What stands between the marks of that name: a study's table, `all` or `published`.
pub(crate) fn block(name: &str, studies: &[Study], page: Page) -> Result<String, String> {
    match name {
        "all" => all(studies, page),
        "published" => published(studies, page),
        id => {
            let study = studies.iter().find(|study| study.id == id);
            table(study.ok_or(format!("docs/results/rows.toml has no study `{id}`"))?, page)
        }
    }
}

fn all(studies: &[Study], page: Page) -> Result<String, String> {
    let mut out = "| study | what came out | verdict | causes |\n|---|---|---|---|\n".to_owned();
    for study in studies {
        let (id, verdict) = (&study.id, study.verdict());
        out += &format!("| [`{id}`](#{id}) | {} | {verdict} | {} |\n", found(study)?, causes(study, page));
    }
    Ok(out)
}

fn published(studies: &[Study], page: Page) -> Result<String, String> {
    let mut out = "| study | source | what came out | verdict | causes |\n|---|---|---|---|---|\n".to_owned();
    for study in studies {
        if let Some(source) = &study.source {
            let link = format!("[`{0}`](docs/guide/studies.md#{0})", study.id);
            let (found, verdict) = (found(study)?, study.verdict());
            out += &format!("| {link} | {source} | {found} | {verdict} | {} |\n", causes(study, page));
        }
    }
    Ok(out)
}

fn causes(study: &Study, page: Page) -> String {
    let (words, path) = &study.page;
    match page {
        Page::Readme => format!("[{words}]({path})"),
        Page::Guide => format!("[{words}](../{})", path.trim_start_matches("docs/")),
    }
}

/// What was measured and the figures of it, or the command that would give some.
fn found(study: &Study) -> Result<String, String> {
    if study.document.is_none() {
        return Ok(format!("{}: `wavelane study run {} --quick`", study.about, study.id));
    }
    let mut figures: Vec<String> =
        study.figures()?.into_iter().map(|(row, text)| text.replace("{}", &value(row))).collect();
    if figures.is_empty() {
        let judged = sorted(study).into_iter().filter(|row| row["verdict"] != "info").take(FIGURES);
        figures = judged.map(|row| format!("{} {}", text(row, "metric"), value(row))).collect();
    }
    Ok(cell(&format!("{}: {}", study.about, figures.join("; "))))
}

/// Rows across cells before those of one cell.
fn sorted(study: &Study) -> Vec<&Value> {
    let mut rows: Vec<&Value> = study.rows().iter().collect();
    rows.sort_by_key(|row| row["case"].as_object().map_or(0, serde_json::Map::len));
    rows
}

/// The rows to show: those that the list names, what fails, what is open, then judged ones.
fn table(study: &Study, page: Page) -> Result<String, String> {
    let id = &study.id;
    let Some(document) = &study.document else {
        return Ok(format!("No result committed; run `wavelane study run {id} --quick`.\n"));
    };
    let mut shown: Vec<&Value> = study.figures()?.into_iter().map(|(row, _)| row).collect();
    for verdict in ["fail", "inconclusive", "pass"] {
        for row in sorted(study).into_iter().filter(|row| row["verdict"] == verdict) {
            if !shown.contains(&row) && (verdict != "pass" || shown.len() < ROWS_WANTED) {
                shown.push(row);
            }
        }
    }
    shown.truncate(ROWS_MAX);
    let mut out = format!("`wavelane study run {id}`, first seed {}: {}.\n\n", document["seed"], study.verdict());
    let has = |key: &str| shown.iter().any(|row| !row[key].is_null());
    let columns: Vec<&str> = ["published", "bound"].into_iter().filter(|key| has(key)).collect();
    let heads: String = columns.iter().map(|key| format!(" {key} |")).collect();
    out += &format!("| row | value |{heads} verdict | reason |\n|---|---|{}---|---|\n", "---|".repeat(columns.len()));
    for row in &shown {
        let numbers =
            columns.iter().map(|key| row[key].as_f64().map_or(String::new(), |n| with_unit(n, text(row, "unit"))));
        let numbers: String = numbers.map(|n| format!(" {n} |")).collect();
        let (name, verdict) = (cell(&named(row, id)), text(row, "verdict"));
        out += &format!("| {name} | {} |{numbers} {verdict} | {} |\n", value(row), cell(&reason(row)));
    }
    let more = study.rows().len() - shown.len();
    if more > 0 {
        let folder = if page == Page::Guide { ".." } else { "docs" };
        out += &format!("\n{more} more rows are in [{id}.json]({folder}/results/{id}.json).\n");
    }
    Ok(out)
}

/// A row's id where it is not the study's, its metric, stack and cell.
fn named(row: &Value, id: &str) -> String {
    let own = Some(text(row, "id")).filter(|own| *own != id && !own.is_empty()).map(|own| format!("{own} "));
    // Lists are the values of single runs: they stand in the document, and may be hundreds.
    let case = row["case"].as_object().into_iter().flatten().filter(|(_, value)| !value.is_array());
    let case: Vec<String> = case.map(|(key, value)| format!("{key} {}", value.to_string().trim_matches('"'))).collect();
    let case = if case.is_empty() { String::new() } else { format!(" ({})", case.join(", ")) };
    format!("{}`{}`, {}{case}", own.unwrap_or_default(), text(row, "metric"), text(row, "stack"))
}

fn text<'a>(row: &'a Value, key: &str) -> &'a str {
    row[key].as_str().unwrap_or_default()
}

/// A value with its interval and unit.
fn value(row: &Value) -> String {
    let unit = text(row, "unit");
    let Some(value) = row["value"].as_f64() else { return "-".into() };
    match row["ci95"].as_f64() {
        Some(half) => with_unit(value, unit).replacen(&scaled(value, unit).0, &interval(value, half, unit), 1),
        None => with_unit(value, unit),
    }
}

/// `1.23 ± 0.04`, both in the value's multiple of the unit.
fn interval(value: f64, half: f64, unit: &str) -> String {
    let (number, divisor, _) = scaled(value, unit);
    let half = half / divisor;
    let decimals = number.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let decimals = if half >= 1.0 { decimals } else { (decimals + 1).min(3) };
    format!("{number} ± {half:.decimals$}")
}

fn with_unit(value: f64, unit: &str) -> String {
    let (number, _, multiple) = scaled(value, unit);
    match unit {
        "" | "ratio" | "share" => number,
        unit => format!("{number} {multiple}{unit}"),
    }
}

/// The number as text, what it was divided by, and the letter for that.
fn scaled(value: f64, unit: &str) -> (String, f64, &'static str) {
    let steps = [(1e9, "G"), (1e6, "M"), (1e3, "k")];
    let step = steps.into_iter().find(|(step, _)| unit == "bit/s" && value.abs() >= *step);
    let (divisor, letter) = step.unwrap_or((1.0, ""));
    (digits(value / divisor), divisor, letter)
}

/// Three figures that matter; whole numbers whole.
fn digits(number: f64) -> String {
    let decimals = match number.abs() {
        n if n.fract() == 0.0 || n >= 100.0 => 0,
        n if n >= 10.0 => 1,
        n if n >= 1.0 => 2,
        _ => 3,
    };
    format!("{number:.decimals$}")
}

/// The reason without the value that it may begin with, shortened.
fn reason(row: &Value) -> String {
    let why = text(row, "why");
    let number = row["value"].as_f64().map(|value| match value.fract() == 0.0 {
        true => format!("{value:.0}, "),
        false => format!("{value:.3}, "),
    });
    let why = number.and_then(|number| why.strip_prefix(&number)).unwrap_or(why);
    match why.char_indices().nth(WHY_MAX) {
        Some((at, _)) => format!("{} ...", why[..at].trim_end()),
        None => why.to_owned(),
    }
}

/// Text that may stand in a table's cell.
fn cell(text: &str) -> String {
    text.replace('|', "/").replace(['\n', '\r'], " ").replace('<', "&lt;")
}

#[cfg(test)]
#[path = "render_tests.rs"]
mod tests;
