//! Where the queue is: the first hop whose delay rises with the load.

use crate::document::{HopRise, QueueAt};
use crate::figures::{Window, counted, ms, round_trip};
use crate::plan::{Beside, Kind, Measurement};
use crate::train::Sample;
use wavelane_base::Span;

/// A rise of the whole path below this has grade A and is not attributed to a queue.
const RISE_MIN_MS: f64 = 30.0;
/// A hop has the queue before it if its own rise is at least this share of the path's.
const SHARE: f64 = 0.5;
/// Answers without and under load from which a hop's medians count.
const ANSWERS_MIN: usize = 3;

fn median(mut spans: Vec<Span>) -> Option<f64> {
    spans.sort_unstable();
    spans.get(spans.len().checked_sub(1)? / 2).copied().map(ms)
}

/// Names the hop in the direction whose delay rises most.
pub(crate) fn locate(target: &str, m: &Measurement) -> Option<QueueAt> {
    let found = [Kind::Down, Kind::Up].into_iter().filter_map(|kind| in_direction(target, m, kind));
    found.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, at)| at)
}

fn in_direction(target: &str, m: &Measurement, kind: Kind) -> Option<(f64, QueueAt)> {
    let find = |kind| m.stages.iter().position(|stage| stage.kind == kind);
    let (idle, loaded) = (find(Kind::Idle)?, find(kind)?);
    let windows = (Window::of(&m.stages[idle]), Window::of(&m.stages[loaded]));
    let whole = |index: usize, window: Window| {
        let handshakes = || m.stages[index].smalls.iter().filter(|s| window.holds(s.begun)).map(|s| s.connect);
        median(match m.beside {
            Beside::Datagrams => counted(m, index, 0, window).iter().filter_map(round_trip).collect(),
            Beside::Connections(_) => handshakes().collect(),
        })
    };
    let rise = whole(loaded, windows.1)? - whole(idle, windows.0)?;
    if rise < RISE_MIN_MS {
        return None;
    }
    let rises = rises(m, windows);
    let first = rises.iter().find(|hop| hop.loaded_ms - hop.idle_ms >= SHARE * rise);
    let mut at = name(kind, first, &rises);
    if let Some((vantage, near)) = near(m, windows) {
        at = by_vantage(kind, target, vantage, near >= SHARE * rise, first, at);
    }
    Some((rise, QueueAt { rises, ..at }))
}

/// The second vantage's name, and how far its median rises.
fn near(m: &Measurement, windows: (Window, Window)) -> Option<(&str, f64)> {
    let vantage = m.vantage.as_ref()?;
    let median_in = |window: Window| {
        let those: Vec<&Sample> = vantage.samples.iter().filter(|s| window.holds(s.sent)).collect();
        let answered: Vec<Span> = those.iter().filter_map(|s| round_trip(s)).collect();
        // Where most are lost there is no median to compare.
        (answered.len() >= ANSWERS_MIN && answered.len() * 2 > those.len()).then(|| median(answered)).flatten()
    };
    Some((&vantage.name, median_in(windows.1)? - median_in(windows.0)?))
}

/// What shares its path with the queue rises with it. Unlike a router's answers, which are rare and sent when it has time,
/// those of the vantage are many, so they decide, and hops say more where they agree.
fn by_vantage(
    kind: Kind,
    target: &str,
    vantage: &str,
    rises: bool,
    first: Option<&HopRise>,
    by_hops: QueueAt,
) -> QueueAt {
    let shape = "set its smart queue management (cake or fq_codel) to a little less than the measured goodput";
    let far = match kind {
        Kind::Up => first.is_some_and(|hop| hop.hop > 1),
        _ => first.is_some_and(|hop| hop.hop > 1 || by_hops.hop > 1),
    };
    let (hop, what, remedy) = match (rises, kind) {
        (true, Kind::Up) => (
            0,
            format!("this host, or its link on the way to {vantage}"),
            "use fq_codel on this host's interface, and a shorter queue or a better signal on its Wi-Fi; the line beyond \
             is not the cause"
                .to_owned(),
        ),
        (true, _) => (
            1,
            format!("the box that sends to this host on the way from {vantage}: over Wi-Fi the access point"),
            format!("on that box, {shape} for this side; over Wi-Fi an access point with airtime fairness and fq_codel"),
        ),
        (false, _) if far => {
            return QueueAt { what: format!("{}, beyond {vantage}", by_hops.what), by: "vantage and hops", ..by_hops };
        }
        (false, _) => (
            by_hops.hop.max(1),
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

/// A queue delays what is sent into it. Upwards that is everything beyond it, so it stands before the first hop that rises;
/// downwards it stands at that hop, which sends towards us.
fn name(kind: Kind, first: Option<&HopRise>, rises: &[HopRise]) -> QueueAt {
    let shape = "set its smart queue management (cake or fq_codel) to a little less than the measured goodput";
    let before = |hop: u8| rises.iter().find(|r| r.hop + 1 == hop).map(|r| r.address.clone());
    let (hop, what, remedy) = match (kind, first) {
        (Kind::Up, Some(first)) if first.hop == 1 => (
            0,
            format!("this host, or its link to the router {}", first.address),
            "use fq_codel on this host's interface, and a shorter queue or a better signal on its Wi-Fi".to_owned(),
        ),
        (Kind::Up, Some(first)) => (
            first.hop - 1,
            format!(
                "router {} (hop {}), where it sends towards {}",
                before(first.hop).unwrap_or_else(|| "without an answer".into()),
                first.hop - 1,
                first.address
            ),
            format!("if that router is yours, {shape}; else limit uploads in your own router a little below that rate"),
        ),
        (_, Some(first)) if first.hop == 1 => (
            1,
            format!("router {} (hop 1), where it sends towards this host", first.address),
            format!(
                "on that router, {shape} for this side; over Wi-Fi an access point with airtime fairness and fq_codel"
            ),
        ),
        (_, Some(first)) => (
            first.hop,
            format!("hop {}, {}, where it sends towards you", first.hop, first.address),
            format!(
                "that queue is your provider's: in your own router, {shape} for downloads, so that the queue is yours"
            ),
        ),
        (_, None) => {
            let last = rises.last().map_or(0, |r| r.hop);
            let what = match last {
                0 => "unknown: no router on the way answers probes that expire".to_owned(),
                n => format!("beyond hop {n}, the last that answers"),
            };
            (last.saturating_add(1), what, format!("in your own router, {shape} in the direction that is slow"))
        }
    };
    QueueAt { hop, direction: kind.word(), what, remedy, by: "hops", rises: Vec::new() }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
