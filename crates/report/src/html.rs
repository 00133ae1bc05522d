//! One self-contained HTML file: no script, no network, readable when printed.

use crate::drawn::Drawn;
use crate::headline::{crossed, headline};
use crate::line::line_table;
use crate::people::people_tables;
use crate::plot::{Look, colour, escape, style_of};
use crate::radio::radio_tables;
use crate::summary::{costs, flows};
use crate::table::Table;
use core::fmt::Write;
use wavelane_run::RunDocument;
use wavelane_scenario::Scenario;

/// On a narrow screen each row of `.rows` is a few lines of its own. Another table that is wider than the page has a shadow at each side where more of it is hidden: of the four backgrounds of `.t` two shadows
/// are fixed, and two covers in the paper's colour scroll with the table.
const STYLE: &str = include_str!("style.css");

/// Colours of the curves on a dark background, in the order of those on white.
const DARK: [&str; 7] = ["#4C96F0", "#F2703A", "#2FC796", "#EE8FCB", "#9BE1FF", "#F7CE46", "#F4F4F4"];

/// The page's beginning, up to and including its heading.
pub(crate) fn head(title: &str) -> String {
    let title = escape(title);
    let mut style = STYLE.to_owned();
    for (i, colour) in DARK.iter().enumerate() {
        let _ = writeln!(
            style,
            ".plot .s{i}{{stroke:{colour}}}.plot .f{i}{{fill:{colour}}}.b{i}{{background:{colour}!important}}"
        );
    }
    style.push('}');
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
         <style>\n{style}\n</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
    )
}

/// The page of a run.
pub(crate) fn page(document: &RunDocument, scenario: &Scenario, pictures: &[(&'static str, Drawn)]) -> String {
    let mut out = head(if document.title.is_empty() { &document.scenario } else { &document.title });
    let verdict = document.verdict.word();
    let seeds = match document.repeat {
        1 => format!("seed {}", document.seed),
        n => format!("seeds {} to {}", document.seed, document.seed.wrapping_add(u64::from(n) - 1)),
    };
    let _ = writeln!(
        out,
        "<p>Scenario <b>{}</b> on <b>{}</b>, {seeds}. Verdict: <span class=\"v {verdict}\">{verdict}</span>.</p>",
        escape(&document.scenario),
        escape(&document.backend)
    );
    for sentence in headline(document, scenario) {
        let _ = writeln!(out, "<p class=\"v\">{}</p>", escape(&sentence));
    }
    let picture = |out: &mut String, (name, drawn): &(&'static str, Drawn)| {
        let _ = writeln!(out, "<div id=\"{name}\">\n{}</div>", drawn.html());
    };
    let mut pictures_left = pictures.iter();
    if let Some(first) = pictures_left.next() {
        picture(&mut out, first);
    }
    let together = if document.repeat > 1 { "seed" } else { "flow" };
    if !pictures.is_empty() && (document.repeat > 1 || crate::curves::has_many(document, scenario)) {
        let _ = writeln!(
            out,
            "<p class=\"note\">Lines that stand for several {together}s are means over those that run (delays: medians), areas reach \
             from the least to the most of any {together} (delays: from the 5th to the 95th percentile of all).</p>"
        );
    }
    match crossed(document, scenario) {
        Some(crossed) => table(&mut out, document, &crossed),
        None if scenario.flows.is_empty() => {}
        None => flow_table(&mut out, document, scenario),
    }
    for (title, more) in people_tables(document).into_iter().chain(radio_tables(document)).chain(line_table(document)) {
        let _ = writeln!(out, "<h2>{}</h2>", escape(title));
        table(&mut out, document, &more);
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
    pictures_left.for_each(|more| picture(&mut out, more));
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
    out.push_str("<div class=\"t\"><table>\n<thead><tr>");
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
                0 => {
                    let style = style_of(document.stacks.iter().map(|s| s.stack.as_str()), cell);
                    let (number, colour) = (Look::of(style).colour, colour(style));
                    format!("<span class=\"swatch b{number}\" style=\"background:{colour}\"></span>")
                }
                _ => String::new(),
            };
            let _ = write!(out, "<td{class}>{swatch}{}</td>", escape(cell));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table></div>\n");
}

fn flow_table(out: &mut String, document: &RunDocument, scenario: &Scenario) {
    table(out, document, &flows(document, scenario));
    for cost in costs(document) {
        let _ = writeln!(out, "<p class=\"note\">{}.</p>", escape(&cost));
    }
    if document.repeat > 1 {
        let _ = writeln!(
            out,
            "<p class=\"note\">Means over {} seeds with 95 % half-widths; without one where all seeds gave the same.</p>",
            document.repeat
        );
    }
    out.push_str(
        "<p class=\"note\">Goodput: bytes at the receiving application from first to last byte; unfinished flows over \
         the time given. Share of link: goodput over the rate of the slowest channel on the way, of which those side by side \
         between two nodes count together as one link. Duration: of completed transfers only. Echo: questions due while the bulk flow ran; unanswered ones \
         rank last, and a percentile that falls on one is \"lost\". Bytes on the link: IP bytes offered to the bad channel, both directions, \
         before loss, per byte delivered.</p>\n",
    );
}

fn checks(out: &mut String, document: &RunDocument) {
    if document.checks.is_empty() {
        return;
    }
    out.push_str("<h2>Checks</h2>\n<div class=\"t\"><table>\n<tbody>\n");
    for c in &document.checks {
        let (word, name, why) = (c.verdict.word(), escape(&c.check), escape(&c.why));
        let _ = writeln!(
            out,
            "<tr><td class=\"l\"><span class=\"v {word}\">{word}</span></td><td class=\"l n\">{name}</td><td class=\"l\">{why}</td></tr>"
        );
    }
    out.push_str("</tbody>\n</table></div>\n");
}
