//! One bad link, every kind of traffic, and the results of each stack.
//!
//! The link has 20 Mbit/s, 50 ms each way and a queue of 250 kB per direction, and loses packets both ways. First come
//! small bodies on connections of their own over the idle link, then a download for the rest of the time with an echo
//! beside it. The gateways are told nothing of the link. The packet service is judged by cells of its own, in which TCP
//! crosses the gateways unsplit; the full edition lets QUIC download over the bare link too.

mod judge;
mod packet;
mod quic;

use crate::cells::{self, Cell, Take};
use crate::document::{Edition, Row, StudyDocument};
use crate::{Setup, StudyError};

/// The study's id.
pub(crate) const ID: &str = "link-efficiency";
/// The link's rate in IP bits per second.
const RATE: f64 = 20e6;

/// What the link loses.
struct Loss {
    /// Folder and case.
    name: &'static str,
    /// For people.
    words: &'static str,
    /// As the file has it: the whole line, or for bursts what is lost in them.
    text: &'static str,
    /// Whether it comes in bursts.
    bursts: bool,
    /// Share of packets that are lost, over a long time.
    share: f64,
    /// Whether the quick edition has it.
    quick: bool,
}

const fn random(name: &'static str, words: &'static str, text: &'static str, share: f64, quick: bool) -> Loss {
    Loss { name, words, text, bursts: false, share, quick }
}

const fn bursts(name: &'static str, words: &'static str, text: &'static str, in_bad: f64) -> Loss {
    Loss { name, words, text, bursts: true, share: in_bad * 30.0 / 600.0, quick: true }
}

impl Loss {
    /// The line of the file.
    fn line(&self) -> String {
        match self.bursts {
            false => self.text.to_owned(),
            true => format!(
                r#"loss = {{ kind = "gilbert-elliott", good = "570 ms", bad = "30 ms", in_good = "0", {}, per = "packet" }}"#,
                self.text
            ),
        }
    }
}

/// The rows. The last are the demo's bursts: bad times of 30 ms on average, every 600 ms on average, in which everything is
/// lost or a part of it (a partial fade, as radios have them).
const LOSSES: &[Loss] = &[
    random("loss-00", "none", "", 0.0, true),
    random("loss-01", "random 1 %", r#"loss = { kind = "random", p = "1/100" }"#, 0.01, false),
    random("loss-05", "random 5 %", r#"loss = { kind = "random", p = "1/20" }"#, 0.05, true),
    random("loss-10", "random 10 %", r#"loss = { kind = "random", p = "1/10" }"#, 0.1, true),
    random("loss-20", "random 20 %", r#"loss = { kind = "random", p = "1/5" }"#, 0.2, true),
    bursts("bursts", "bursts of 30 ms every 600 ms", r#"in_bad = "1""#, 1.0),
    bursts("fades-50", "fades of 30 ms every 600 ms, half lost in them", r#"in_bad = "0.5""#, 0.5),
    bursts("fades-30", "fades of 30 ms every 600 ms, 30 % lost in them", r#"in_bad = "0.3""#, 0.3),
];
/// The part of the cells in which TCP crosses unsplit.
const UNSPLIT: &str = "unsplit";
/// What can be run alone.
pub(crate) const PARTS: [&str; 9] =
    ["loss-00", "loss-01", "loss-05", "loss-10", "loss-20", "bursts", "fades-50", "fades-30", UNSPLIT];

/// Small bodies: flow, size, between two of them.
const FETCHES: [(&str, &str, &str); 3] =
    [("kb1", "1 kB", "200 ms"), ("kb10", "10 kB", "400 ms"), ("kb100", "100 kB", "1 s")];
/// The download and its echo.
const BULK: &str = "page";
const ECHO: &str = "echo";

/// What an edition runs.
struct Plan {
    stacks: &'static str,
    /// Seconds of small bodies, and of everything.
    seconds: [u32; 2],
    repeat: u32,
}

const QUICK: Plan = Plan {
    stacks: r#""tcp-bbr", "hysteria2-brutal", "hysteria2-bbr", "tuic-bbr", "wavelane""#,
    seconds: [5, 20],
    repeat: 1,
};
const FULL: Plan = Plan {
    stacks: r#""tcp-cubic", "tcp-bbr", "kcptun", "kcptun-fast3", "boringtun-cubic", "boringtun-bbr", "hysteria2-brutal",
"hysteria2-bbr", "tuic-bbr", "wavelane""#,
    seconds: [10, 60],
    repeat: 3,
};

/// The link: two endpoints, two gateways, and between these `delay` each way and what `lose` says.
fn link_text(title: &str, seconds: u32, stacks: &str, delay: &str, lose: &str) -> String {
    format!(
        r#"title = "{title}"
duration = "{seconds} s"
stacks = [{stacks}]
[nodes]
client = "endpoint"
a = "gateway"
b = "gateway"
server = "endpoint"
[channels.lan_client]
preset = "ethernet"
between = ["client", "a"]
[channels.air]
kind = "cable"
between = ["a", "b"]
reverse = "same"
[channels.air.forward]
rate = "20 Mbit/s"
delay = "{delay}"
queue = "250 kB"
{lose}
[channels.lan_server]
preset = "ethernet"
between = ["b", "server"]
"#
    )
}

/// A body by `app` from `start` s on, with an echo beside it.
fn bulk_text(app: &str, start: u32) -> String {
    format!(
        r#"[flows.{BULK}]
app = "{app}"
from = "client"
to = "server"
start = "{start} s"
[flows.{ECHO}]
app = "echo"
from = "client"
to = "server"
start = "{start} s"
while = "{BULK}"
"#
    )
}

fn scenario_text(loss: &Loss, plan: &Plan) -> String {
    let [small, all] = plan.seconds;
    let title = format!("20 Mbit/s and 100 ms, loss both ways: {}", loss.words);
    let mut text = link_text(&title, all, plan.stacks, "50 ms", &loss.line()) + &bulk_text("download", small);
    for (flow, size, every) in FETCHES {
        text += &format!(
            "[flows.{flow}]\napp = \"fetch\"\nfrom = \"client\"\nto = \"server\"\nsize = \"{size}\"\nevery = \"{every}\"\nstop = \"{small} s\"\n"
        );
    }
    text
}

/// What is judged together.
enum Task {
    Loss(&'static Loss),
    Unsplit(&'static packet::Case),
}

impl Task {
    /// Its rows, once `take` has its cells.
    fn rows(&self, plan: &Plan, edition: Edition, take: Take<'_>) -> Result<Option<Vec<Row>>, StudyError> {
        let loss = match self {
            Self::Loss(loss) => loss,
            Self::Unsplit(case) => {
                let text = packet::scenario_text(case, edition);
                let document = take(&Cell::new(ID, case.name, &text, plan.repeat))?;
                return Ok(document.map(|document| packet::rows(case, &document)));
            }
        };
        let text = scenario_text(loss, plan);
        let Some(document) = take(&Cell::new(ID, loss.name, &text, plan.repeat))? else { return Ok(None) };
        let mut rows = judge::cell(loss, &document, edition);
        if edition == Edition::Full {
            let text = quic::scenario_text(loss, plan);
            let name = format!("quic-{}", loss.name);
            let Some(own) = take(&Cell::new(ID, &name, &text, plan.repeat))? else { return Ok(None) };
            rows.extend(quic::rows(loss, &document, &own));
        }
        Ok(Some(rows))
    }
}

/// Runs the edition's cells and judges them.
pub(crate) fn run(setup: &Setup<'_>) -> Result<StudyDocument, StudyError> {
    let Setup { options, .. } = *setup;
    let plan = if options.edition == Edition::Full { FULL } else { QUICK };
    // A part that is asked for by name is run in either edition.
    let by_edition = |loss: &Loss| loss.quick || options.edition == Edition::Full || !options.parts.is_empty();
    let losses = LOSSES.iter().filter(|loss| by_edition(loss) && options.wants(loss.name)).map(Task::Loss);
    let cases = packet::CASES.iter().filter(|_| options.wants(UNSPLIT)).map(Task::Unsplit);
    let tasks: Vec<Task> = losses.chain(cases).collect();
    let rows_of = |task: &Task, take: Take<'_>| task.rows(&plan, options.edition, take);
    let rows = cells::rows_of_all(&tasks, 1, setup, rows_of)?;
    Ok(StudyDocument::new(ID, options.edition, options.seed.0, rows))
}

#[cfg(test)]
mod tests;
