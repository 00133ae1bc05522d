//! Locates the queue: the first hop whose delay rises with the load.

use crate::document::{HopRise, QueueAt};
use crate::figures::{Window, counted, ms, round_trip};
use crate::plan::{Beside, Measurement, StageKind};
use crate::train::Sample;
use crate::vantage::Vantage;
use wavelane_base::Span;

/// A rise of the whole path below this has grade A and is not attributed to a queue.
const RISE_MIN_MS: f64 = 30.0;
/// The queue is before a hop if its own rise is at least this share of the path's.
const SHARE: f64 = 0.5;
/// Minimum number of answers with and without load for a hop's medians to count.
const ANSWERS_MIN: usize = 3;
/// A second vantage is nearer than the target if its idle median is at most this share of the target's. One that is as far away may be
/// anywhere, and its common part with the target's path is unknown.
const NEARER: f64 = 0.8;
/// `by` if neither hops nor a vantage give a result.
pub(crate) const CANNOT_TELL: &str = "cannot tell";

fn median(mut spans: Vec<Span>) -> Option<f64> {
    spans.sort_unstable();
    spans.get(spans.len().checked_sub(1)? / 2).copied().map(ms)
}

/// Finds the queue of each direction whose delay rises, the one that rises most first.
pub(crate) fn locate(target: &str, m: &Measurement) -> [Option<QueueAt>; 2] {
    let [down, up] = [StageKind::Down, StageKind::Up].map(|kind| in_direction(target, m, kind));
    let down_is_worse = down.as_ref().map(|(rise, _)| *rise) > up.as_ref().map(|(rise, _)| *rise);
    let (first, second) = if down_is_worse { (down, up) } else { (up, down) };
    [first, second].map(|found| found.map(|(_, at)| at))
}

fn in_direction(target: &str, m: &Measurement, kind: StageKind) -> Option<(f64, QueueAt)> {
    let find = |kind| m.stages.iter().position(|stage| stage.kind == kind);
    let (idle, loaded) = (find(StageKind::Idle)?, find(kind)?);
    let windows = (Window::of(&m.stages[idle]), Window::of(&m.stages[loaded]));
    let whole = |index: usize, window: Window| {
        let handshakes = || m.stages[index].smalls.iter().filter(|s| window.holds(s.begun)).map(|s| s.connect);
        median(match m.beside {
            Beside::Datagrams => counted(m, index, 0, window).iter().filter_map(round_trip).collect(),
            Beside::Connections(_) => handshakes().collect(),
        })
    };
    let far_ms = whole(idle, windows.0)?;
    let rise = whole(loaded, windows.1)? - far_ms;
    if rise < RISE_MIN_MS {
        return None;
    }
    let rises = rises(m, windows);
    let first = rises.iter().find(|hop| hop.loaded_ms - hop.idle_ms >= SHARE * rise);
    let mut at = name(kind, first, &rises);
    if let Some(vantage) = &m.vantage {
        match near(vantage, windows, (target, far_ms)) {
            Ok(near) => at = by_vantage(kind, target, &vantage.name, near >= SHARE * rise, first, at),
            Err(why) => at.doubt = Some(why),
        }
    }
    Some((rise, QueueAt { rises, ..at }))
}

/// The rise of the second vantage's median, or why it is not usable. `far` is the target and its median without load.
fn near(vantage: &Vantage, windows: (Window, Window), far: (&str, f64)) -> Result<f64, String> {
    let name = &vantage.name;
    let median_in = |window: Window| {
        let those: Vec<&Sample> = vantage.samples.iter().filter(|s| window.holds(s.sent)).collect();
        let answered: Vec<Span> = those.iter().filter_map(|s| round_trip(s)).collect();
        // If most are lost there is no median to compare.
        (answered.len() >= ANSWERS_MIN && answered.len() * 2 > those.len()).then(|| median(answered)).flatten()
    };
    let (Some(idle), Some(loaded)) = (median_in(windows.0), median_in(windows.1)) else {
        return Err(format!("{name} was not used, for it answered too few probes"));
    };
    if idle > NEARER * far.1 {
        return Err(format!(
            "{name} was not used, for it is no nearer than {} ({idle:.1} and {:.1} ms without load): name a machine on the way, such as \
             one cabled to your router",
            far.0, far.1
        ));
    }
    Ok(loaded - idle)
}

/// A vantage whose path includes the queue rises with it. Unlike a router's answers, which are rare and low-priority, those of the vantage
/// are many, so they decide, and hops add detail where they agree.
fn by_vantage(
    kind: StageKind,
    target: &str,
    vantage: &str,
    rises: bool,
    first: Option<&HopRise>,
    by_hops: QueueAt,
) -> QueueAt {
    let shape = "set its smart queue management (cake or fq_codel) to a little less than the measured goodput";
    let far = match kind {
        StageKind::Up => first.is_some_and(|hop| hop.hop > 1),
        _ => first.is_some_and(|hop| hop.hop > 1 || by_hops.hop > Some(1)),
    };
    let (hop, what, remedy) = match (rises, kind) {
        (true, StageKind::Up) => (
            Some(0),
            format!("this host, or its link on the way to {vantage}"),
            "use fq_codel on this host's interface, and a shorter queue or a better signal on its Wi-Fi; the line beyond \
             is not the cause"
                .to_owned(),
        ),
        (true, _) => (
            Some(1),
            format!("the box that sends to this host on the way from {vantage}: over Wi-Fi the access point"),
            format!("on that box, {shape} for this side; over Wi-Fi an access point with airtime fairness and fq_codel"),
        ),
        (false, _) if far => {
            return QueueAt { what: format!("{}, beyond {vantage}", by_hops.what), by: "vantage and hops", ..by_hops };
        }
        (false, _) => (
            by_hops.hop.map(|hop| hop.max(1)),
            format!("beyond {vantage}, between it and {target}"),
            format!("this host and its link are not the cause: in your own router, {shape} in the direction that is slow"),
        ),
    };
    QueueAt { hop, what, remedy, by: "vantage", ..by_hops }
}

fn rises(m: &Measurement, windows: (Window, Window)) -> Vec<HopRise> {
    let mut rises = Vec::new();
    for hop in 1..=crate::hops::HOPS_MAX {
        let of = |window: Window| -> Vec<Span> {
            let those = m.hops.iter().filter(|h| h.hop == hop && window.holds(h.sent));
            those.map(|h| h.back.since(h.sent)).collect()
        };
        let (idle, loaded) = (of(windows.0), of(windows.1));
        let Some(answer) = m.hops.iter().find(|h| h.hop == hop) else { continue };
        let answers = loaded.len();
        if idle.len() < ANSWERS_MIN || answers < ANSWERS_MIN {
            continue;
        }
        if let (Some(idle_ms), Some(loaded_ms)) = (median(idle), median(loaded)) {
            rises.push(HopRise { hop, address: answer.from.to_string(), idle_ms, loaded_ms, answers: answers as u64 });
        }
        if answer.target {
            break;
        }
    }
    rises
}

/// A queue delays packets sent into it. Upstream that affects everything beyond it, so it is before the first hop that rises; downstream it
/// is at that hop, which sends towards us.
fn name(kind: StageKind, first: Option<&HopRise>, rises: &[HopRise]) -> QueueAt {
    let shape = "set its smart queue management (cake or fq_codel) to a little less than the measured goodput";
    let before = |hop: u8| rises.iter().find(|r| r.hop + 1 == hop).map(|r| r.address.clone());
    let (hop, what, remedy) = match (kind, first) {
        (StageKind::Up, Some(first)) if first.hop == 1 => (
            Some(0),
            format!("this host, or its link to the router {}", first.address),
            "use fq_codel on this host's interface, and a shorter queue or a better signal on its Wi-Fi".to_owned(),
        ),
        (StageKind::Up, Some(first)) => (
            Some(first.hop - 1),
            format!(
                "router {} (hop {}), where it sends towards {}",
                before(first.hop).unwrap_or_else(|| "without an answer".into()),
                first.hop - 1,
                first.address
            ),
            format!("if that router is yours, {shape}; else limit uploads in your own router a little below that rate"),
        ),
        (_, Some(first)) if first.hop == 1 => (
            Some(1),
            format!("router {} (hop 1), where it sends towards this host", first.address),
            format!(
                "on that router, {shape} for this side; over Wi-Fi an access point with airtime fairness and fq_codel"
            ),
        ),
        (_, Some(first)) => (
            Some(first.hop),
            format!("hop {}, {}, where it sends towards you", first.hop, first.address),
            format!(
                "that queue is your provider's: in your own router, {shape} for downloads, so that the queue is yours"
            ),
        ),
        (_, None) => {
            let last = rises.last().map(|r| r.hop);
            let what = match last {
                None => "unknown: no router on the way answers probes that expire".to_owned(),
                Some(n) => format!("beyond hop {n}, the last that answers"),
            };
            let hop = last.map(|last| last.saturating_add(1));
            (hop, what, format!("in your own router, {shape} in the direction that is slow"))
        }
    };
    let by = if hop.is_some() { "hops" } else { CANNOT_TELL };
    QueueAt { hop, direction: kind.word(), what, remedy, by, doubt: None, rises: Vec::new() }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
