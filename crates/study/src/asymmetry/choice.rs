//! Out by a radio that delivers less for a while, or by a modem beside it; back by radio (S0-E14).

use super::net::{Lane, Way, change, echo, scenario};
use super::seen::{Seen, smaller};
use super::{OURS, Task};
use crate::cells::{Aim, joined, judge};
use crate::document::Row;
use serde_json::json;

const ID: &str = "S0-E14";
const PHASE_S: u64 = 120;
/// Share that the radio delivers in each phase, in percent.
const DELIVERS: [u32; 3] = [100, 30, 100];
/// The handshake, which is no part of the choice, is left out.
const FROM_S: f64 = 1.0;
const RADIO_BPS: u64 = 2_000_000;
const RADIO_DELAY_MS: u64 = 5;
const OCTETS: u32 = 300;
/// How long an answer takes back over the radio, which is the same in every run: its delay, and its octets with about 86 of
/// headers and tag.
const BACK_MS: f64 = RADIO_DELAY_MS as f64 + (OCTETS + 86) as f64 * 8e3 / RADIO_BPS as f64;
const TIMES: f64 = 1.1;
/// The policies that have both ways out. The default is the one with a guarantee; the others stand beside it.
const CHOICES: [&str; 3] = [PROMISED, "pinned", "delivery-1998"];
const PROMISED: &str = "bond";

fn text(title: &str, ways: &[&'static str], choice: Option<&str>) -> String {
    let way = |name: &'static str| {
        let radio = Way::new(RADIO_BPS, RADIO_DELAY_MS, "50 kB");
        match name {
            "radio" => (name, Lane::Out(radio)),
            "modem" => (name, Lane::Out(Way::new(33_600, 50, "16 kB"))),
            _ => (name, Lane::Back(radio)),
        }
    };
    let lanes: Vec<(&str, Lane)> = ways.iter().copied().chain(["down"]).map(way).collect();
    let mut text = scenario(title, PHASE_S * DELIVERS.len() as u64, &[OURS], &lanes) + &echo(OCTETS, 200);
    if let Some(choice) = choice {
        text += &format!("[links.between]\nlanes = [\"radio\", \"modem\"]\nchoice = \"{choice}\"\n");
    }
    for (phase, delivers) in DELIVERS.iter().enumerate().filter(|_| ways.contains(&"radio")) {
        let loss = match 100 - delivers {
            0 => "{ kind = \"none\" }".to_owned(),
            percent => format!("{{ kind = \"random\", p = \"{percent}/100\" }}"),
        };
        text += &change(PHASE_S * phase as u64, "radio.forward.loss", &loss);
    }
    text
}

fn rows(seen: &[Seen]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (phase, delivers) in DELIVERS.iter().enumerate() {
        let case = |way: &str| {
            let words =
                [("phase", json!(phase + 1)), ("radio_delivers_percent", json!(delivers)), ("out_by", json!(way))];
            seen[0].head(ID, &words, OURS)
        };
        let (from, until) = ((phase as u64 * PHASE_S) as f64 + FROM_S, ((phase as u64 + 1) * PHASE_S) as f64);
        let mean = |seen: &Seen| -> Vec<f64> {
            let all = seen.stack(OURS).map(|s| s.echo_mean(from, until)).unwrap_or_default();
            all.into_iter().map(|ms| ms - BACK_MS).collect()
        };
        let [radio, modem] = [0, 1].map(|run| mean(&seen[run]));
        let better = smaller(&radio, &modem);
        for (name, delays) in [("radio", &radio), ("modem", &modem)] {
            rows.push(case(name).row("out_mean_ms", "ms", delays));
        }
        for (choice, seen) in CHOICES.into_iter().zip(&seen[2..]) {
            let delays = mean(seen);
            rows.push(case(choice).row("out_mean_ms", "ms", &delays));
            let of_better = joined(&delays, &better, |a, b| a / b);
            let mut row = case(choice).row("out_mean_of_better_fixed", "ratio", &of_better);
            if choice == PROMISED {
                judge(&mut row, Aim::AtMost(TIMES));
            }
            rows.push(row);
        }
    }
    rows
}

pub(super) fn tasks() -> Vec<Task> {
    let fixed = [("radio", &["radio"][..], None), ("modem", &["modem"], None)];
    // What the file does not say is the default.
    let chosen = CHOICES.map(|choice| (choice, &["radio", "modem"][..], (choice != PROMISED).then_some(choice)));
    let run = |(name, ways, choice)| {
        (format!("choice-{name}"), text(&format!("A radio that fades beside a modem: out by {name}"), ways, choice))
    };
    vec![Task::new("choice", fixed.into_iter().chain(chosen).map(run).collect(), rows).seeds(20)]
}
