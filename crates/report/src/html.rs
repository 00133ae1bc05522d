//! One self-contained HTML file: no script, no network, readable when printed.

use crate::curves::Picture;
use crate::plot::{colour, escape, style_of};
use crate::radio::radio_tables;
use crate::summary::{costs, flows};
use crate::table::Table;
use core::fmt::Write;
use wavelane_run::RunDocument;
use wavelane_scenario::Scenario;

pub(crate) const STYLE: &str = "\
body{font:15px/1.5 system-ui,'DejaVu Sans',sans-serif;color:#111;background:#fff;max-width:1000px;margin:2em auto;padding:0 1em}
h1{font-size:1.5em;margin-bottom:.2em}h2{font-size:1.15em;margin-top:2em}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:.35em .6em;border-bottom:1px solid #ddd;text-align:right;vertical-align:top}
th{border-bottom:2px solid #333;font-weight:600;font-size:.85em}
td.l,th.l{text-align:left}.swatch{display:inline-block;width:.8em;height:.8em;margin-right:.5em}
code,pre{font-family:ui-monospace,'DejaVu Sans Mono',monospace;background:#f4f4f4}code{padding:.1em .3em}
pre{padding:.8em;overflow-x:auto;font-size:.85em}
.n{white-space:nowrap}svg{width:100%;height:auto;border:1px solid #eee;margin-top:1.5em}.v{font-weight:700}.pass{color:#006b3c}.fail{color:#b00020}
.inconclusive{color:#8a5a00}.note{color:#555;font-size:.9em}
@media print{body{max-width:none;margin:0}svg{break-inside:avoid}}";

/// The page.
pub(crate) fn page(document: &RunDocument, scenario: &Scenario, pictures: &[(Picture, String)]) -> String {
    let title = if document.title.is_empty() { &document.scenario } else { &document.title };
    let title = escape(title);
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n<style>\n{STYLE}\n</style>\n</head>\n<body>\n"
    );
    let verdict = document.verdict.word();
    let seeds = match document.repeat {
        1 => format!("seed {}", document.seed),
        n => format!("seeds {} to {}", document.seed, document.seed.wrapping_add(u64::from(n) - 1)),
    };
    let _ = writeln!(
        out,
        "<h1>{title}</h1>\n<p>Scenario <b>{}</b> on <b>{}</b>, {seeds}. Verdict: <span class=\"v {verdict}\">{verdict}</span>.</p>",
        escape(&document.scenario),
        escape(&document.backend)
    );
    flow_table(&mut out, document, scenario);
    for (title, radio) in radio_tables(document) {
        let _ = writeln!(out, "<h2>{}</h2>", escape(title));
        table(&mut out, document, &radio);
    }
    for o in &document.omitted {
        let _ = writeln!(out, "<p class=\"note\">Omitted <b>{}</b>: {}</p>", escape(&o.stack), escape(&o.why));
    }
    for s in &document.stacks {
        if let Some(why) = &s.inconclusive {
            let _ = writeln!(out, "<p class=\"inconclusive\">{} proves nothing: {}</p>", escape(&s.stack), escape(why));
        }
    }
    checks(&mut out, document);
    for (picture, svg) in pictures {
        let _ = writeln!(out, "<div id=\"{}\">\n{svg}\n</div>", picture.name);
    }
    if document.repeat > 1 && !pictures.is_empty() {
        let _ = writeln!(
            out,
            "<p class=\"note\">The pictures show seed {}; the table is over all seeds.</p>",
            document.seed
        );
    }
    if !document.clauses.is_empty() {
        out.push_str("<h2>Not exactly as written</h2>\n<ul>\n");
        for c in &document.clauses {
            let _ = writeln!(
                out,
                "<li><code>{}</code> {}: {}</li>",
                escape(&c.clause),
                escape(&c.treatment),
                escape(&c.why)
            );
        }
        out.push_str("</ul>\n");
    }
    let _ = writeln!(out, "<h2>Repeat it</h2>\n<pre>{}</pre>", escape(&document.rerun));
    let _ = writeln!(
        out,
        "<details><summary>The scenario, resolved</summary>\n<pre>{}</pre>\n</details>",
        escape(&scenario.to_toml())
    );
    out.push_str("</body>\n</html>\n");
    out
}

fn table(out: &mut String, document: &RunDocument, table: &Table) {
    out.push_str("<table>\n<thead><tr>");
    for (i, head) in table.heads.iter().enumerate() {
        let class = if i < table.words { " class=\"l\"" } else { "" };
        let _ = write!(out, "<th{class}>{}</th>", escape(head));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in &table.rows {
        out.push_str("<tr>");
        for (i, cell) in row.iter().enumerate() {
            let class = if i < table.words { " class=\"l n\"" } else { " class=\"n\"" };
            let swatch = match i {
                0 => format!(
                    "<span class=\"swatch\" style=\"background:{}\"></span>",
                    colour(style_of(document.stacks.iter().map(|s| s.stack.as_str()), cell))
                ),
                _ => String::new(),
            };
            let _ = write!(out, "<td{class}>{swatch}{}</td>", escape(cell));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table>\n");
}

fn flow_table(out: &mut String, document: &RunDocument, scenario: &Scenario) {
    table(out, document, &flows(document, scenario));
    for cost in costs(document) {
        let _ = writeln!(out, "<p class=\"note\">{}.</p>", escape(&cost));
    }
    if document.repeat > 1 {
        let _ = writeln!(out, "<p class=\"note\">Means over {} seeds with 95 % half-widths.</p>", document.repeat);
    }
    out.push_str(
        "<p class=\"note\">Goodput: bytes at the receiving application from first to last byte; unfinished flows over \
         the time given. Share of link: goodput over the slowest channel's rate. Echo: questions due while the bulk \
         flow ran; an unanswered one ranks last and as at least 5 s. Wire bytes: IP bytes offered to the bad channel, \
         both directions, before loss.</p>\n",
    );
}

fn checks(out: &mut String, document: &RunDocument) {
    if document.checks.is_empty() {
        return;
    }
    out.push_str("<h2>Checks</h2>\n<table>\n<tbody>\n");
    for c in &document.checks {
        let (word, name, why) = (c.verdict.word(), escape(&c.check), escape(&c.why));
        let _ = writeln!(
            out,
            "<tr><td class=\"l\"><span class=\"v {word}\">{word}</span></td><td class=\"l n\">{name}</td><td class=\"l\">{why}</td></tr>"
        );
    }
    out.push_str("</tbody>\n</table>\n");
}
