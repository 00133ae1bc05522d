//! Each figure in one plain sentence.

use crate::document::{Explained, PhaseFigures, ProbeDocument};
use crate::plan::SocketDrops;
use wavelane_measure::LOSS_RULE;

/// The limits of the grades.
const GRADE_RULE: &str = "A+ below 5 ms, A 30, B 60, C 200, D 400, then F";
/// A path with a shorter RTT holds almost nothing, so any queue is many times that.
const SHORT_PATH_MS: f64 = 1.0;

fn rate(bps: f64) -> String {
    match bps {
        b if b >= 1e9 => format!("{:.2} Gbit/s", b / 1e9),
        b if b >= 1e6 => format!("{:.1} Mbit/s", b / 1e6),
        b => format!("{:.0} kbit/s", b / 1e3),
    }
}

fn delay(ms: f64) -> String {
    match ms {
        m if m >= 1_000.0 => format!("{:.1} s", m / 1e3),
        m if m >= 10.0 => format!("{m:.0} ms"),
        m if m >= 1.0 => format!("{m:.1} ms"),
        m => format!("{m:.2} ms"),
    }
}

fn doing(phase: &str) -> &'static str {
    match phase {
        "idle" => "While nothing else was going on",
        "down" => "During a download",
        "up" => "During an upload",
        "both" => "During a download and an upload at once",
        _ => "Afterwards",
    }
}

fn phase(p: &PhaseFigures) -> String {
    if p.is_void() {
        return format!("{} nothing was transferred, so it says nothing of delay under load.", doing(p.phase));
    }
    let mut text = doing(p.phase).to_owned();
    if let Some(bps) = p.goodput_bps {
        text += &format!(" of {}", rate(bps));
    }
    match (p.foreign_p50_ms, p.foreign_p99_ms) {
        (Some(half), Some(most)) => {
            text += &format!(
                " half of all small packets were there and back within {}, and 99 of 100 within {}",
                delay(half),
                delay(most)
            );
        }
        (Some(half), None) => {
            text += &format!(
                " half of all small packets were there and back within {}, and more than one of 100 was lost",
                delay(half)
            );
        }
        _ => text += " more than half of all small packets were lost",
    }
    let lost = p.loss_down.unwrap_or(0.0).max(p.loss_up.unwrap_or(0.0));
    if lost > 0.0 {
        let share = |loss: Option<f64>| format!("{:.2} %", loss.unwrap_or(0.0) * 100.0);
        text +=
            &format!("; {} were lost on the way there and {} on the way back", share(p.loss_up), share(p.loss_down));
    }
    text + "."
}

/// The quantity that the grade is based on.
fn letters_rule(d: &ProbeDocument) -> String {
    let loaded = d.phases.iter().filter(|p| matches!(p.phase, "down" | "up"));
    let rises: Vec<String> =
        loaded.filter_map(|p| Some(format!("{} in the {}load", delay(p.rise_ms?.max(0.0)), p.phase))).collect();
    let of = if rises.len() > 1 { ", of the mean of both" } else { "" };
    format!(
        "It is of how much longer a small packet takes on average while a transfer runs than without one: {} ({GRADE_RULE}{of}).",
        rises.join(" and ")
    )
}

fn bloat(d: &ProbeDocument, ratio: f64) -> String {
    let waits = (1.0 - 1.0 / ratio.max(1.0)) * 100.0;
    let idle = d.phases.iter().find(|p| p.phase == "idle").and_then(|p| p.foreign_p50_ms);
    let words = match idle {
        Some(ms) if ms < SHORT_PATH_MS => format!(
            "the path is so short ({ms:.2} ms there and back) that any queue is many times what it holds; judge by the delays"
        ),
        _ if ratio < 1.05 => "under load no more was under way than the path holds, so nothing waited".to_owned(),
        _ => format!(
            "under load {ratio:.1} times as much was under way as the path holds, so about {waits:.0} % of it waited somewhere"
        ),
    };
    format!("Bloat {ratio:.1}: {words}.")
}

/// The sentences, in reading order.
pub(crate) fn sentences(d: &ProbeDocument) -> Vec<Explained> {
    let mut all = Vec::new();
    let mut say = |figure, sentence: String| all.push(Explained { figure, sentence });
    if let (Some(letter), Some(bound)) = (d.grade, &d.grade_bound) {
        let sentence = format!("{bound}, and others feel that more than any delay ({LOSS_RULE})");
        say("grade", format!("Grade {letter} ({} scale, bounded by loss): {sentence}.", d.grade_scale));
    } else if let Some(bound) = &d.grade_bound {
        say("grade", format!("No grade: {bound}, so nothing is known of the delay beside such a transfer."));
    } else if let Some(letter) = d.grade {
        let meaning = match letter {
            "A+" => "a transfer is not felt by others",
            "A" => "calls and games go on beside a transfer",
            "B" => "games feel a transfer, calls hardly",
            "C" => "calls and games suffer from a transfer",
            "D" => "one transfer makes calls stutter",
            _ => "one transfer makes the network feel broken",
        };
        say("grade", format!("Grade {letter} ({} scale): {meaning}. {}", d.grade_scale, letters_rule(d)));
    }
    if let (Some(rpm), Some(class), Some(confidence)) = (d.rpm, d.rpm_class, d.rpm_confidence) {
        let more = if confidence == "low" { "; phases of 25 s and more (--seconds 25) give a surer one" } else { "" };
        let why = if d.rpm_bounded_by_loss { "; bounded by lost packets, each as one of 5 s" } else { "" };
        say(
            "rpm",
            format!(
                "Responsiveness {rpm:.0} round trips per minute, {class} ({}, {confidence} confidence{more}{why}): \
                 under load, so often in a minute something can be asked and answered.",
                d.rpm_draft
            ),
        );
    }
    if let Some(p) = crate::bounds::unscored(&d.phases) {
        let when = crate::bounds::when(p.phase);
        say("rpm", format!("No responsiveness: {when} no answers gave a score, so the worst phase is unknown."));
    }
    if let Some(ratio) = d.bloat_ratio {
        say("bloat_ratio", bloat(d, ratio));
    }
    let both = d.queue_at.is_some() && d.queue_at_other.is_some();
    for (figure, at) in [("queue_at", &d.queue_at), ("queue_at_other", &d.queue_at_other)] {
        let Some(at) = at else { continue };
        let queue = if both { format!("The queue of the {}load", at.direction) } else { "The queue".to_owned() };
        let place = match at.what.strip_prefix("unknown: ") {
            Some(why) => format!(
                "The place of {} is unknown: {why}; a machine on the way that runs 'wavelane probe serve', named with --vantage, can locate it",
                queue.replacen('T', "t", 1)
            ),
            None if at.what.starts_with("beyond ") => format!("{queue} is {}", at.what),
            None => format!("{queue} is at {}", at.what),
        };
        say(figure, format!("{place}: {}.", at.remedy));
        if let Some(why) = at.doubt.as_ref().filter(|_| figure == "queue_at") {
            say("vantage", format!("The second vantage {why}."));
        }
    }
    for p in d.phases.iter().chain(&d.after) {
        say(p.phase, phase(p));
    }
    if d.probe_cost_bps > 0.0 {
        say("probe_cost_bps", format!("The probes themselves took {} each way.", rate(d.probe_cost_bps)));
    } else {
        let what = "small packets are the handshakes of short TCP connections, ten a second, each with one request";
        say("method", format!("It was measured by {}, as networkQuality does: {what}.", d.protocol));
    }
    if d.interrupted {
        say("interrupted", "It was ended early; what was measured until then is shown.".into());
    }
    let skipped: u64 = d.phases.iter().map(|p| p.probes_skipped).sum();
    let due = skipped + d.phases.iter().map(|p| p.probes).sum::<u64>();
    if skipped * 100 > due {
        say(
            "probes_skipped",
            format!("This machine was too busy for {skipped} of {due} probes: repeat it with less going on."),
        );
    }
    let SocketDrops { server, own } = d.socket_drops;
    if server > 0 {
        let what = "as many of the losses on the way there, or fewer, are that machine's and not the network's";
        let remedy = "give it less to do, or raise its net.core.rmem_max";
        say(
            "socket_drops",
            format!("The server's socket dropped {server} datagrams of all its clients: {what}; {remedy}."),
        );
    }
    if own > 0 {
        let what = "so many of the losses on the way back are this machine's and not the network's";
        say(
            "socket_drops",
            format!("This machine's socket dropped {own} answers: {what}; repeat it with less going on."),
        );
    }
    for note in &d.notes {
        say("note", format!("Note: {note}."));
    }
    all
}
