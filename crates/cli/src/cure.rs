//! `wavelane cure`: measure, propose a shaper, apply it, take it back.

use crate::probe::{measured, resolve, watch};
use crate::{Failure, Outcome, print};
use clap::Args;
use core::fmt::Write;
use serde_json::{Value, json};
use std::net::{IpAddr, SocketAddr, SocketAddrV4};
use std::path::{Path, PathBuf};
use wavelane_base::text::ShownPath;
use wavelane_daemon::shaper::cure::{
    GOOD_MS, Measured, Proposed, Target, Wish, apply, file_text, interface_towards, means_here, propose, reflector_at,
    refuse_taken, refuse_unknown, undo,
};
use wavelane_probe::document::ProbeDocument;

const EXAMPLES: &str = include_str!("examples/cure.txt");

/// The format of the document.
const FORMAT: &str = "wavelane-cure/1";

/// A shaper that leaves less of the goodput than this is said to: it takes a tenth, and measurements differ by as much again.
const GOODPUT_LEFT: f64 = 0.75;

/// Arguments of `wavelane cure`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CureArgs {
    /// A machine beyond the slow link where 'wavelane probe serve' runs: HOST or HOST:PORT.
    #[arg(value_name = "TARGET", required_unless_present = "undo", conflicts_with = "undo")]
    target: Option<String>,
    /// The interface by which uploads leave this machine [default: that of the route to TARGET].
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// On a router, the interface by which downloads leave into the house.
    #[arg(long, value_name = "NAME")]
    inside: Option<String>,
    /// The link's own rate moves (LTE, satellite): follow it, by the delay to TARGET.
    #[arg(long)]
    moving: bool,
    /// Seconds of each load.
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = clap::value_parser!(u16).range(4..=600))]
    seconds: u16,
    /// Set up what is proposed, and measure again (root).
    #[arg(long)]
    yes: bool,
    /// Take back what an earlier '--yes' set up (root).
    #[arg(long, conflicts_with = "yes")]
    undo: bool,
    /// Where the shaper's configuration is kept.
    #[arg(long, value_name = "FILE", default_value = FILE)]
    file: PathBuf,
    /// Print one JSON document on standard output, and nothing else.
    #[arg(long)]
    json: bool,
}

/// Where the shaper's configuration is kept unless told.
const FILE: &str = "/etc/wavelane/shaper.toml";

/// Measures and proposes, or takes back.
pub(crate) fn cure(args: &CureArgs) -> Outcome {
    if args.undo {
        undo(&args.file).map_err(Failure::refused)?;
        let file = args.file.display().to_string();
        let text = format!("taken back: nothing is shaped any more, and {file} is gone\n");
        print(&if args.json { document(&json!({ "undone": file })) } else { text })?;
        return Ok(0);
    }
    if args.yes {
        refuse_early(&args.file)?;
    }
    for name in args.interface.iter().chain(&args.inside) {
        refuse_unknown(name).map_err(Failure::refused)?;
    }
    let target = args.target.clone().unwrap_or_default();
    let stop = watch()?;
    let address = resolve(&target, &stop)?;
    let reflector = args.moving.then(|| reflector(address)).transpose()?;
    let outside = match &args.interface {
        Some(name) => name.clone(),
        None => interface_towards(address.ip()).map_err(Failure::refused)?,
    };
    let phases: &[&str] = if args.inside.is_some() { &["up", "down"] } else { &["up"] };
    let before = measured(&target, phases, args.seconds, &stop)?;
    refuse_void(&before)?;
    let interfaces = [("up", Some(outside)), ("down", args.inside.clone())];
    let wishes: Vec<Wish> = interfaces.into_iter().filter_map(|(phase, name)| wish(&before, phase, name?)).collect();
    let proposed = propose(&wishes);
    let file = file_text(&proposed, reflector);
    let mut told = Told { target: &target, args, before: &before, after: None, proposed: &proposed, file: &file };
    if !args.yes || proposed.is_empty() {
        told.tell()?;
        return Ok(0);
    }
    let said = match apply(&args.file, &file, &|said| crate::tell(said)) {
        Ok(said) => said,
        // What was measured took its time, and holds all the same.
        Err(why) => {
            told.tell()?;
            return Err(Failure::refused(why));
        }
    };
    said.lines().for_each(crate::tell);
    // What was set up stays, whatever becomes of the second measurement.
    let after = measured(&target, phases, args.seconds, &stop).inspect_err(|_| {
        say!(
            "wavelane: the second measurement ended early; what was set up stays, and '{}' takes it back",
            told.undo()
        );
    })?;
    told.after = Some(&after);
    told.tell()?;
    Ok(0)
}

/// Refuses before the measurement what would be refused after it.
fn refuse_early(file: &Path) -> Result<(), Failure> {
    refuse_taken(file).map_err(Failure::refused)?;
    let whole = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    wavelane_run::check_writable(whole.parent().unwrap_or(&whole)).map_err(|_| {
        let file = file.shown();
        Failure::refused(format!("cannot write {file}: run this as root, or name another place with --file"))
    })
}

/// A cure is proposed from what was measured alone.
fn refuse_void(document: &ProbeDocument) -> Result<(), Failure> {
    let Some(void) = document.phases.iter().find(|p| p.is_void()) else { return Ok(()) };
    let notes = document.notes.join("; ");
    let why = if notes.is_empty() { "nothing of it came through in its time".to_owned() } else { notes };
    Err(Failure::refused(format!(
        "there was no load {} to measure: {why}. On a very slow line let it go on for longer (--seconds 60); else see that nothing between here and 'wavelane probe serve' stops TCP, and run this again",
        void.phase
    )))
}

fn reflector(target: SocketAddr) -> Result<Target, Failure> {
    match target.ip().to_canonical() {
        IpAddr::V4(address) => Ok(reflector_at(SocketAddrV4::new(address, target.port()))),
        IpAddr::V6(address) => Err(Failure::refused(format!(
            "--moving asks TARGET for ICMP timestamps, which IPv6 has not: name {address} by an IPv4 address"
        ))),
    }
}

/// What a direction's phase says, if it was measured.
fn wish(document: &ProbeDocument, phase: &str, interface: String) -> Option<Wish> {
    let figures = document.phases.iter().find(|p| p.phase == phase)?;
    let found = Measured { rise_ms: figures.rise_ms?, goodput_bps: figures.goodput_bps? };
    Some(Wish { interface, inwards: phase == "down", found })
}

/// Everything there is to say.
struct Told<'a> {
    target: &'a str,
    args: &'a CureArgs,
    before: &'a ProbeDocument,
    after: Option<&'a ProbeDocument>,
    proposed: &'a [Proposed],
    file: &'a str,
}

impl Told<'_> {
    fn tell(&self) -> Result<(), Failure> {
        print(&if self.args.json { document(&self.json()) } else { self.text() })
    }

    fn json(&self) -> Value {
        let figures = |of: &ProbeDocument| -> Value {
            of.phases
                .iter()
                .map(|p| {
                    json!({ "phase": p.phase, "foreign_p50_ms": p.foreign_p50_ms, "rise_ms": p.rise_ms,
                            "goodput_bps": p.goodput_bps })
                })
                .collect()
        };
        let one = |p: &Proposed| {
            json!({ "interface": p.interface, "direction": p.direction, "rate_bps": p.rate.as_bps(),
                    "moving": self.args.moving })
        };
        json!({
            "format": FORMAT, "target": self.target, "measured": figures(self.before), "grade": self.before.grade,
            "proposed": self.proposed.iter().map(one).collect::<Vec<_>>(), "by": means_here(),
            "config": (!self.proposed.is_empty()).then_some(self.file), "applied": self.after.is_some(),
            "file": self.args.file.display().to_string(), "after": self.after.map(figures),
            "grade_after": self.after.and_then(|after| after.grade), "worse": self.worse(),
        })
    }

    /// What the shaper has not made better, in words, by direction; downloads through `inside` are not seen from here.
    fn worse(&self) -> Vec<String> {
        let Some(after) = self.after else { return Vec::new() };
        let of = |document: &ProbeDocument, phase: &str| {
            let figures = document.phases.iter().find(|p| p.phase == phase)?;
            Some((figures.rise_ms?, figures.goodput_bps?))
        };
        let shaped = self.proposed.iter().map(|one| one.direction).filter(|way| *way == "up");
        shaped.filter_map(|way| worse(way, of(self.before, way)?, of(after, way))).collect()
    }

    /// The command that takes it back.
    fn undo(&self) -> String {
        let file = self.args.file.shown();
        let other = if self.args.file == Path::new(FILE) { String::new() } else { format!(" --file {file}") };
        format!("wavelane cure --undo{other}")
    }

    fn text(&self) -> String {
        let undo = self.undo();
        let mut text = table(if self.after.is_some() { "before" } else { "" }, self.before);
        if let Some(after) = self.after {
            text.push_str(&table("after", after));
            if let Some(inside) = &self.args.inside {
                let _ = writeln!(
                    text,
                    "\nthis machine's own downloads do not leave by {inside}, so 'down' shows nothing of it: measure from a machine behind it"
                );
            }
            for worse in self.worse() {
                let _ = writeln!(text, "\n{worse}: '{undo}' takes it back");
            }
            let file = self.args.file.shown();
            let _ = writeln!(text, "\nset up by {file}; '{undo}' takes it back");
            return text;
        }
        if self.proposed.is_empty() {
            let _ = writeln!(text, "\nno delay rises by {GOOD_MS} ms or more: there is nothing to cure");
            return text;
        }
        let by = means_here().map_or_else(String::new, |by| format!(" (here: {by})"));
        let _ = writeln!(text, "\nthis would keep the queue short{by}:\n\n{}", self.file.trim_end());
        text + &format!("\n\nset it up with --yes; take it back with '{undo}'\n")
    }
}

/// Whether a direction is no better than before: rise in milliseconds and goodput in bit/s.
fn worse(way: &str, before: (f64, f64), after: Option<(f64, f64)>) -> Option<String> {
    let Some(after) = after else {
        return Some(format!("'{way}' could not be measured again, so whether it is better is not known"));
    };
    let mbit = |bps: f64| bps / 1e6;
    let figures = format!(
        "the rise was {:.1} ms and is {:.1} ms, the goodput was {:.2} Mbit/s and is {:.2} Mbit/s",
        before.0,
        after.0,
        mbit(before.1),
        mbit(after.1)
    );
    if after.0 >= before.0 {
        let why = "the queue stands elsewhere, or the line's own rate moves, which --moving follows";
        return Some(format!("'{way}' is no better for it ({figures}): {why}"));
    }
    // Nine tenths are meant to be left.
    (after.1 < before.1 * GOODPUT_LEFT).then(|| {
        let why = "a line that loses packets, or whose rate moves, was measured in a bad moment: measure again";
        format!("'{way}' pays much for it ({figures}): {why}")
    })
}

fn table(title: &str, document: &ProbeDocument) -> String {
    let figure = |value: Option<f64>, unit: &str| {
        value.map_or_else(|| "-".into(), |v| format!("{v:.1} {unit}").replace("-0.0 ", "0.0 "))
    };
    let mut text = format!("{title:<8}{:>14}{:>14}{:>16}\n", "round trip", "rise", "goodput");
    for phase in &document.phases {
        let goodput = figure(phase.goodput_bps.map(|bps| bps / 1e6), "Mbit/s");
        let (trip, rise) = (figure(phase.foreign_p50_ms, "ms"), figure(phase.rise_ms, "ms"));
        let _ = writeln!(text, "{:<8}{trip:>14}{rise:>14}{goodput:>16}", phase.phase);
    }
    text
}

fn document(value: &Value) -> String {
    let mut value = value.clone();
    if let Some(object) = value.as_object_mut() {
        object.entry("format").or_insert_with(|| json!(FORMAT));
    }
    let text = serde_json::to_string_pretty(&value).expect("strings and numbers have a JSON form");
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_direction_that_is_no_better_for_the_shaper_is_named() {
        let said = |before, after| worse("up", before, after).unwrap_or_default();
        assert_eq!(said((400.0, 5e6), Some((20.0, 4.5e6))), "");
        assert!(said((40.0, 5e6), Some((40.0, 4.5e6))).starts_with("'up' is no better for it (the rise was 40.0 ms"));
        assert!(said((400.0, 5e6), Some((20.0, 2.5e6))).contains("5.00 Mbit/s and is 2.50 Mbit/s"));
        assert!(said((400.0, 5e6), None).contains("could not be measured again"));
    }
}
