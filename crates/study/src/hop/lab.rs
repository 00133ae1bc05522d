//! Part `lab`: the same cells between kernels. What a stack carries there is set beside what it does in virtual time.

use super::net::{Apart, B11, Net, TXOP, flow};
use super::{FlowSeen, OURS, SPLIT, Seen, of_raw, work};
use crate::cells::{Head, fingerprint_of};
use crate::document::{Edition, Row};
use crate::elsewhere::Simulation;
use crate::experiments::{LAB, no_lab};
use crate::kept::Kept;
use crate::observe::{ready, run_stack};
use crate::{Setup, StudyError};
use serde_json::{Value, json};
use std::path::Path;
use wavelane_lab::LabBackend;
use wavelane_run::{CaptureExtent, RunContext, RunError};

/// By how much a kernel's TCP, and the driver's lateness, may make the goodput another (issue 37's row `lab`).
const WITHIN: f64 = 0.15;
/// Seconds of a run without transfers that begin later.
const SECONDS: u32 = 10;

/// A cell for some stacks.
struct Case {
    id: &'static str,
    words: Vec<(&'static str, Value)>,
    net: Net,
    stacks: &'static [&'static str],
}

fn cases(edition: Edition) -> Vec<Case> {
    let up = |to: usize| flow("up", "upload", 0, to, "");
    let short = |net: Net| Net { seconds: SECONDS, ..net };
    let one_hop = |kind: &str, share: f64| {
        let mut net = Net::chain(1, Apart::Cell, 0.0, up(1));
        net.reach = net.reach.replace("loss = \"0\"", &format!("{kind} = \"{share}\""));
        short(net)
    };
    let mut all = Vec::new();
    let hops = |words, stacks| {
        let net = short(Net::chain(3, Apart::Hidden, 0.0, up(3)));
        Case { id: "S2-E3", words, net, stacks }
    };
    let three = vec![("stations", json!(Apart::Hidden.word())), ("hops", json!(3))];
    if edition == Edition::Quick {
        all.push(Case {
            id: "S2-E2",
            words: vec![("loss", json!(0))],
            net: one_hop("loss", 0.0),
            stacks: &["tcp-cubic", OURS],
        });
        all.push(hops(three, &["tcp-cubic"]));
        return all;
    }
    for loss in [0.0, 0.2, 0.5] {
        let stacks: &[&str] = &["tcp-cubic", "tcp-bbr", OURS];
        all.push(Case { id: "S2-E2", words: vec![("loss", json!(loss))], net: one_hop("loss", loss), stacks });
    }
    all.push(hops(three, &["tcp-cubic", "tcp-bbr", SPLIT, OURS]));
    for drop in [0.1, 0.2] {
        let words = vec![("lost", json!("drop")), ("share", json!(drop))];
        all.push(Case { id: "S2-E4", words, net: one_hop("drop", drop), stacks: &["tcp-cubic", "tcp-bbr", OURS] });
    }
    let mut flows: String = (1..=4).map(|n| flow(&format!("up{n}"), "upload", n, 0, "")).collect();
    flows += &flow("small4", "upload", 5, 0, "start = \"4 s\"\nsize = \"100 kB\"");
    let words = vec![("size", json!("100 kB"))];
    let net = short(Net::star(5, |_, _| false, flows));
    all.push(Case { id: "S2-E7", words, net, stacks: &["tcp-cubic", "tcp-bbr", OURS] });
    all
}

/// A run in the lab; what made it inconclusive, if anything did, comes with it.
fn in_lab(run: &Simulation, setup: &Setup<'_>) -> Result<(Seen, Option<String>), StudyError> {
    let (scenario, stack) = ready(&run.scenario, &run.stack, run.seed)?;
    let out = setup.options.out.join(super::ID).join(LAB);
    let mut context = RunContext {
        out: &out,
        label: "run".into(),
        captures: CaptureExtent::Off,
        progress: &mut |_| {},
        cancelled: setup.hooks.cancelled,
    };
    let raw = run_stack(&mut LabBackend, (&scenario, stack), &mut context);
    let _ = std::fs::remove_dir_all(Path::new(&out));
    let raw = raw?;
    Ok((of_raw(&scenario, &raw), raw.inconclusive))
}

/// Rows of the part; one that says why where the lab cannot run.
pub(super) fn rows(setup: &Setup<'_>, kept: &Kept) -> Result<Vec<Row>, StudyError> {
    let options = setup.options;
    let mut rows = Vec::new();
    for Case { id, words, net, stacks } in cases(options.edition) {
        for stack in stacks {
            // As on cables: which frame begins a burst, and alone is acknowledged, no program can tell a driver.
            let net =
                Net { knobs: if *stack == OURS { "radio = \"plain\"".into() } else { String::new() }, ..net.clone() };
            let scenario = net.text(&format!("{B11}\n{TXOP}"), stack);
            let run = Simulation { scenario, stack: (*stack).to_owned(), seed: options.seed.0 };
            let key = |of: &str| fingerprint_of(&format!("{of} {} {} {}", run.stack, run.seed, run.scenario));
            let simulated = match kept.get(&key("sim")) {
                Some(seen) => seen,
                None => kept.put(&key("sim"), work(&run, setup.hooks.cancelled)?),
            };
            let measured = match kept.get::<(Seen, Option<String>)>(&key(LAB)) {
                Some(seen) => seen,
                None => match in_lab(&run, setup) {
                    Ok(seen) => kept.put(&key(LAB), seen),
                    Err(StudyError::Run(why)) if !matches!(why, RunError::Cancelled) => {
                        rows.push(no_lab(super::ID, stack, &why.to_string()));
                        (options.row)(&rows[rows.len() - 1]);
                        return Ok(rows);
                    }
                    Err(why) => return Err(why),
                },
            };
            let row = compare(&Head::new(id, LAB, &words, stack), &simulated, measured);
            (options.row)(&row);
            rows.push(row);
        }
    }
    Ok(rows)
}

/// The bulk flows' goodput in the lab over that in the simulator.
fn compare(head: &Head, simulated: &Seen, (measured, late): (Seen, Option<String>)) -> Row {
    let long = |seen: &Seen| {
        let flows = seen.flows.iter().filter(|flow| flow.flow.starts_with("up"));
        flows.map(|flow: &FlowSeen| flow.goodput_bps).sum::<f64>()
    };
    let mut row = head.row("goodput_over_simulated", "ratio", &[long(&measured) / long(simulated)]);
    row.why = format!(
        "{:.2} Mbit/s, simulated {:.2}; data frames/s {:.0} and {:.0}, without ACK {:.0} and {:.0}, dropped by stations {:.1} and {:.1}",
        long(&measured) / 1e6,
        long(simulated) / 1e6,
        measured.data,
        simulated.data,
        measured.unanswered,
        simulated.unanswered,
        measured.own_drops,
        simulated.own_drops
    );
    match late {
        Some(why) => row.inconclusive(why),
        // A few timeouts decide what TCP carries where a tenth is lost above the MAC.
        None if head.id == "S2-E4" && head.stack != OURS => row,
        None => row.between(1.0 - WITHIN, 1.0 + WITHIN),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use std::sync::atomic::AtomicBool;
    use wavelane_scenario::Scenario;

    #[test]
    fn every_case_is_a_scenario_that_the_lab_takes() {
        for edition in [Edition::Quick, Edition::Full] {
            for Case { net, stacks, .. } in cases(edition) {
                for stack in stacks {
                    Scenario::parse(&net.text(&format!("{B11}\n{TXOP}"), stack), Path::new(".")).unwrap();
                }
            }
        }
    }

    /// CUBIC over one hop, over two with hidden senders, and in the shipped cell of 2003, in the lab and in virtual time.
    #[test]
    fn cubic_in_cells_between_kernels_is_as_simulated() {
        if !wavelane_lab::may_run() {
            eprintln!("SKIPPED (needs root): cells between kernels");
            return;
        }
        let shipped = include_str!("../../../../scenarios/wifi/bulk-cell.toml");
        let bulk = shipped
            .replace("profile = \"ns3-3.44\"\nsegment = \"1000 B\"\nwindow = \"5000 B\"", "segment = \"1000 B\"");
        let bulk = bulk.replace("duration = \"105 s\"", "duration = \"10 s\"");
        let chain =
            |hops| Net { seconds: 8, ..Net::chain(hops, Apart::Hidden, 0.0, flow("up", "upload", 0, hops, "")) };
        let texts = [
            ("one hop", chain(1).text(B11, "tcp-cubic"), WITHIN),
            ("two hops", chain(2).text(B11, "tcp-cubic"), WITHIN),
            // Some 1 MB of seven flows: 0.82 to 0.96 have been seen on a quiet machine.
            ("cell", bulk, 0.4),
        ];
        for (name, text, within) in texts {
            let (scenario, stack) = ready(&text, "tcp-cubic", 1).unwrap();
            let out = std::env::temp_dir().join(format!("wavelane-{}-cells", std::process::id()));
            let cancelled = AtomicBool::new(false);
            let (captures, progress) = (CaptureExtent::Off, &mut |_| {});
            let mut context = RunContext { out: &out, label: "cell".into(), captures, progress, cancelled: &cancelled };
            let measured = run_stack(&mut LabBackend, (&scenario, stack), &mut context).unwrap();
            let _ = std::fs::remove_dir_all(&out);
            let run = Simulation { scenario: text, stack: "tcp-cubic".into(), seed: 1 };
            let simulated = work(&run, &cancelled).unwrap();
            let ratio = of_raw(&scenario, &measured).total() / simulated.total();
            println!("{name}: {ratio:.3} of {:.2} Mbit/s, {:?}", simulated.total() / 1e6, measured.notes);
            match measured.inconclusive {
                Some(why) => println!("not judged: {why}"),
                None => assert!((1.0 - within..=1.0 + within).contains(&ratio), "{name}: {ratio}"),
            }
        }
    }
}
