#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use serde_json::json;

const LIST: &str = r#"
id = "x"
about = "downloads"
source = "Somebody"
page = "docs/decisions/0001-a.md"
figures = [{ text = "{} of the link", metric = "limit_share", case = { rate = 2 } }]
"#;

fn row(metric: &str, rate: u64, value: f64, verdict: &str) -> Value {
    json!({"id": "x", "case": {"rate": rate}, "stack": "wavelane", "metric": metric, "unit": "ratio", "value": value,
           "ci95": 0.01, "n": 3, "published": null, "bound": null, "verdict": verdict, "why": "0.500, wanted 1 | more"})
}

fn study(rows: Option<Vec<Value>>) -> Study {
    let table: toml::Value = toml::Value::Table(LIST.parse().unwrap());
    let mut study = Study::parse(&table).unwrap();
    study.document =
        rows.map(|rows| json!({"study": "x", "edition": "quick", "seed": 1, "parts": ["sim", "lab"], "draws": "1..9", "verdict": "fail", "rows": rows}));
    study
}

#[test]
fn both_pages_have_the_same_figures() {
    let rows =
        vec![row("limit_share", 1, 0.9, "pass"), row("limit_share", 2, 0.5, "fail"), row("other", 1, 2.0, "info")];
    let studies = [study(Some(rows))];
    let readme = block("published", &studies, Page::Readme).unwrap();
    let guide = block("all", &studies, Page::Guide).unwrap();
    for page in [&readme, &guide] {
        assert!(
            page.contains("| downloads: 0.500 ± 0.010 of the link | fail (quick; only sim, lab; draws 1..9): of 2 judged rows 1 pass, 1 fail |"),
            "{page}"
        );
    }
    assert!(readme.contains("](docs/decisions/0001-a.md)") && guide.contains("](../decisions/0001-a.md)"));
    let table = block("x", &studies, Page::Guide).unwrap();
    assert!(
        table.contains("| `limit_share`, wavelane (rate 2) | 0.500 ± 0.010 | fail | wanted 1 / more |\n"),
        "{table}"
    );
    assert!(table.find("rate 2").unwrap() < table.find("rate 1").unwrap(), "{table}");
    assert!(table.contains("\n1 more rows are in [x.json]"), "{table}");
}

#[test]
fn a_table_is_short_and_counts_the_rest() {
    for (verdict, most) in [("pass", ROWS_WANTED), ("fail", ROWS_MAX)] {
        let rows = (0..50).map(|rate| row("limit_share", rate, 0.5, verdict)).collect();
        let table = block("x", &[study(Some(rows))], Page::Guide).unwrap();
        assert_eq!(table.lines().filter(|line| line.starts_with("| `")).count(), most);
        assert!(table.contains(&format!("\n{} more rows", 50 - most)), "{table}");
    }
}

#[test]
fn a_study_without_a_result_says_so_with_the_command() {
    let studies = [study(None)];
    for name in ["x", "all", "published"] {
        let text = block(name, &studies, Page::Guide).unwrap();
        assert!(
            text.to_lowercase().contains("no result committed") && text.contains("`wavelane study run x --quick`"),
            "{text}"
        );
    }
}

#[test]
fn the_values_of_single_runs_stay_in_the_document() {
    let mut of_runs = row("limit_share", 2, 0.5, "fail");
    of_runs["case"]["runs_bps"] = json!(vec![1.5; 400]);
    let named = named(&of_runs, "x");
    assert!(named.contains("(rate 2)") && !named.contains("1.5"), "{named}");
}

#[test]
fn a_figure_that_the_result_lacks_is_refused() {
    let refused = block("all", &[study(Some(vec![row("limit_share", 1, 0.9, "pass")]))], Page::Guide).unwrap_err();
    assert!(refused.contains("docs/results/x.json has no row for \"{} of the link\""), "{refused}");
    assert!(block("y", &[study(None)], Page::Guide).is_err());
}

#[test]
fn numbers_have_three_figures_and_rates_a_multiple() {
    assert_eq!(with_unit(17_912_345.0, "bit/s"), "17.9 Mbit/s");
    assert_eq!([with_unit(0.0371, "ratio"), with_unit(148.2, "ms"), with_unit(5.0, "")], ["0.037", "148 ms", "5"]);
    let row = json!({"unit": "bit/s", "value": 2_600_000.0, "ci95": 130_000.0});
    assert_eq!(value(&row), "2.60 ± 0.130 Mbit/s");
    assert_eq!(value(&json!({"unit": "ms", "value": null})), "-");
}
