//! Transfers each way between ours and the kernel at 1 Gbit/s and 2 ms, with losses and with reordering: every byte
//! intact, captures that tshark reads without a complaint, and the counters of the kernel in our place.

use super::{Control, LINK, Watch, Who, fight, judge_ratio, link, losing, row};
use crate::document::Row;
use crate::ours::Ours;
use crate::{StudyError, StudyOptions};
use serde_json::json;
use std::path::Path;
use std::process::Command;
use wavelane_base::{Ratio, Seed, Span};
use wavelane_channel::{CableConfig, Cause, Reorder};
use wavelane_lab::duel::{Duel, DuelEnd, Load};
use wavelane_scenario::figures::mean_ci95;
use wavelane_scenario::{Progress, Verdict};

/// Bytes per transfer by edition.
const OCTETS: [u64; 2] = [20_000_000, 200_000_000];
/// Bytes of the transfers that are captured whole.
const CAPTURED_OCTETS: u64 = 10_000_000;
const CAPTURED_QUEUE: u64 = 500_000;
/// How far ours may be from the kernel's speed, judged for BBR.
const SPEED_WITHIN: f64 = 0.2;
const ROUND_TRIP: Span = Span::from_millis(2);
/// More than a send buffer of either (4 MiB) puts in flight: no queue overflows, so what is repeated is what the link's dice
/// lost and what was believed lost.
const QUEUE: u64 = 6_000_000;
/// Counts are compared over as many seeds.
const SEEDS: u64 = 4;
/// A transfer slower than this is given up.
const LIMIT: Span = Span::from_secs(120);
/// Counts of repeats may differ by this share, or by this many per transfer where there are few.
const COUNT_WITHIN: f64 = 0.1;
const COUNT_BY: f64 = 3.0;
/// Below this many per transfer, chance is Poisson's whatever the seeds happen to show.
const FEW: f64 = 20.0;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Trouble {
    Loss,
    Reordering,
}

impl Trouble {
    pub(super) const ALL: [Self; 2] = [Self::Loss, Self::Reordering];

    fn word(self) -> &'static str {
        match self {
            Self::Loss => "0.1 % loss",
            Self::Reordering => "1 % of frames 1 ms late",
        }
    }
    fn cable(self) -> CableConfig {
        let mut cable = link(1_000, ROUND_TRIP, QUEUE);
        match self {
            Self::Loss => cable = losing(cable, 1),
            Self::Reordering => {
                let p = Ratio::new(1, 100).expect("at most the whole");
                cable.forward.reorder = Reorder { p, extra: Span::from_millis(1) };
            }
        }
        cable
    }
}

/// What counts of one transfer.
struct Counted {
    goodput: Option<f64>,
    intact: bool,
    retransmits: u64,
    /// Frames that the link's queue dropped: the sender's speed, not the link's dice.
    overflow: u64,
    timeouts: u64,
    inconclusive: Option<String>,
}

fn counted(end: &DuelEnd<Ours>) -> Counted {
    let flow = &end.flows[0];
    let span = flow.last_ns.unwrap_or(0).saturating_sub(flow.first_ns.unwrap_or(0));
    let kernel = |name: &str| end.kernel[0].as_ref().and_then(|all| all.get(name)).copied();
    let ours = end.guests[0].as_ref().and_then(|host| host.0.statuses().next()).map(|status| status.counters);
    Counted {
        goodput: (span > 0).then(|| flow.octets as f64 * 8e9 / span as f64),
        intact: flow.intact == Some(true),
        retransmits: kernel("TcpRetransSegs").or(ours.map(|c| c.retransmits)).unwrap_or(0),
        overflow: end.link[0].dropped(Cause::Queue).frames,
        timeouts: kernel("TcpExtTCPTimeouts").or(ours.map(|c| c.timeouts)).unwrap_or(0),
        inconclusive: end.inconclusive.clone(),
    }
}

/// Linux alone, ours in the sender's place, and both in each other's.
const PAIRS: [[Who; 2]; 3] = [[Who::Kernel, Who::Kernel], [Who::Ours, Who::Kernel], [Who::Kernel, Who::Ours]];

pub(super) fn rows(
    options: &StudyOptions,
    full: bool,
    trouble: Trouble,
    watch: Watch<'_>,
) -> Result<Vec<Row>, StudyError> {
    let mut rows = Vec::new();
    let octets = OCTETS[usize::from(full)];
    for control in Control::ALL {
        let mut seen: [Vec<Counted>; 3] = Default::default();
        // The pairs take turns, so that whatever else the machine does meets all alike.
        for seed in (0..SEEDS).map(|i| Seed(options.seed.0 + i)) {
            for (who, seen) in PAIRS.into_iter().zip(&mut seen) {
                let note = format!("{} to {}, {}", who[0].word(), who[1].word(), trouble.word());
                tell(watch, control, seed, &note);
                let end = fight(&duel(seed, trouble.cable(), octets), who, control, watch.cancelled)?;
                seen.push(counted(&end));
            }
        }
        rows.extend(PAIRS.iter().zip(&seen).map(|(who, seen)| transfers(control, trouble, *who, octets, seen)));
        let [linux, ours, swapped] = &seen;
        rows.extend(compare(control, trouble, "the same receiver", ours, linux));
        rows.extend(compare(control, trouble, "roles swapped", ours, swapped));
        rows.push(speed(control, trouble, ours, linux));
    }
    Ok(rows)
}

fn duel(seed: Seed, cable: CableConfig, octets: u64) -> Duel {
    let load = Load::Octets(octets);
    Duel { name: LINK.into(), seed, cable, flows: 1, load, limit: LIMIT, ipv6: false, capture: None }
}

pub(super) fn tell(watch: Watch<'_>, control: Control, seed: Seed, note: &str) {
    let (at, of) = (Span::ZERO, Span::ZERO);
    (watch.progress)(Progress { stack: control.stack(), seed, at, of, note: note.to_owned() });
}

/// The transfers of one pair: intact, and how fast.
fn transfers(control: Control, trouble: Trouble, who: [Who; 2], octets: u64, seen: &[Counted]) -> Row {
    let case = json!({ "from": who[0].word(), "to": who[1].word(), "trouble": trouble.word(), "octets": octets });
    let mut row = row("lab", control.word(), "intact", "share", case);
    let intact = seen.iter().filter(|c| c.intact).count();
    (row.value, row.n) = (Some(intact as f64 / seen.len().max(1) as f64), seen.len() as u64);
    row.verdict = if intact == seen.len() && intact > 0 { Verdict::Pass } else { Verdict::Fail };
    let list = |of: fn(&Counted) -> u64| seen.iter().map(|c| of(c).to_string()).collect::<Vec<_>>().join(", ");
    row.why = format!(
        "{} to {}, {}: {} Mbit/s, {} segments repeated, the queue dropped {}, {} timeouts",
        who[0].word(),
        who[1].word(),
        trouble.word(),
        list(|c| (c.goodput.unwrap_or(0.0) / 1e6).round() as u64),
        list(|c| c.retransmits),
        list(|c| c.overflow),
        list(|c| c.timeouts),
    );
    if let Some(why) = seen.iter().find_map(|c| c.inconclusive.as_ref()) {
        row.why += &format!("; {why}");
    }
    row
}

/// How fast ours is in the kernel's place. Only BBR's is judged: Reno's and CUBIC's speed under loss is the goodput cells'.
fn speed(control: Control, trouble: Trouble, ours: &[Counted], linux: &[Counted]) -> Row {
    let case = json!({ "trouble": trouble.word() });
    let mut row = row("lab", control.word(), "goodput over the kernel's at 1 Gbit/s", "ratio", case);
    let of = |seen: &[Counted]| -> Vec<f64> { seen.iter().filter_map(|c| c.goodput).collect() };
    judge_ratio(&mut row, &of(ours), &of(linux), SPEED_WITHIN);
    if control != Control::Bbr {
        row.verdict = Verdict::Info;
    }
    row.why = format!("{}: {}", trouble.word(), row.why);
    row
}

/// Ours against the kernel's over the same seeds: repeats and timeouts.
fn compare(control: Control, trouble: Trouble, how: &str, ours: &[Counted], linux: &[Counted]) -> Vec<Row> {
    let busy = ours.iter().chain(linux).find_map(|c| c.inconclusive.as_ref());
    let one = |metric: &str, of: fn(&Counted) -> u64| {
        let list = |seen: &[Counted]| -> Vec<f64> { seen.iter().map(|c| of(c) as f64).collect() };
        let (ours, linux) = (list(ours), list(linux));
        let case = json!({ "trouble": trouble.word(), "against": how, "linux": linux, "ours": ours });
        let mut row = row("lab", control.word(), metric, "ratio", case);
        let Some((a, b, half)) = difference(&ours, &linux) else { return row };
        (row.value, row.n) = ((b > 0.0).then(|| a / b), ours.len() as u64);
        row.ci95 = (b > 0.0).then(|| half / b);
        let (away, most) = ((a - b).abs(), (COUNT_WITHIN * b).max(COUNT_BY));
        row.verdict = match away {
            _ if away <= most => Verdict::Pass,
            _ if away - half <= most || busy.is_some() => Verdict::Inconclusive,
            _ => Verdict::Fail,
        };
        row.why = format!(
            "{}, {how}: {a:.1} of ours against {b:.1} per transfer, {:+.1} ± {half:.1}, wanted within 10 % or {COUNT_BY:.0}",
            trouble.word(),
            a - b
        );
        if let Some(why) = busy {
            row.why += &format!("; {why}");
        }
        row
    };
    vec![one("retransmits over the kernel's", |c| c.retransmits), one("timeouts over the kernel's", |c| c.timeouts)]
}

/// Means of two lists of counts with the same seeds, and the 95 % half-width of the means' difference: Student's t on the
/// differences seed by seed, for both met the same dice; where there are few, Poisson's if that is wider.
fn difference(ours: &[f64], linux: &[f64]) -> Option<(f64, f64, f64)> {
    let differences: Vec<f64> = ours.iter().zip(linux).map(|(a, b)| a - b).collect();
    let (_, half) = mean_ci95(&differences)?;
    let (a, b) = (mean_ci95(ours)?.0, mean_ci95(linux)?.0);
    let poisson = if a.min(b) < FEW { 1.96 * ((a + b) / differences.len() as f64).sqrt() } else { 0.0 };
    Some((a, b, half.unwrap_or(0.0).max(poisson)))
}

/// Short transfers, captured whole and read by tshark, over both versions of IP.
pub(super) fn captured(options: &StudyOptions, watch: Watch<'_>) -> Result<Vec<Row>, StudyError> {
    let mut rows = Vec::new();
    for (ipv6, who) in [
        (false, [Who::Ours, Who::Kernel]),
        (false, [Who::Kernel, Who::Ours]),
        (true, [Who::Ours, Who::Kernel]),
        (true, [Who::Kernel, Who::Ours]),
    ] {
        let version = if ipv6 { "IPv6" } else { "IPv4" };
        let path = options.out.join(format!("{}-{}-{version}.pcapng", who[0].word(), who[1].word()));
        let mut duel = duel(options.seed, losing(link(200, ROUND_TRIP, CAPTURED_QUEUE), 1), CAPTURED_OCTETS);
        (duel.ipv6, duel.capture) = (ipv6, Some(path.clone()));
        tell(watch, Control::Cubic, options.seed, &format!("capturing {} to {}", who[0].word(), who[1].word()));
        let end = fight(&duel, who, Control::Cubic, watch.cancelled)?;
        let case = json!({ "from": who[0].word(), "to": who[1].word(), "ip": version, "octets": CAPTURED_OCTETS });
        let mut row = row("lab", "cubic", "frames tshark complains about", "frames", case);
        let intact = end.flows[0].intact == Some(true);
        match complaints(&path) {
            Ok((frames, bad)) => {
                (row.value, row.n, row.bound) = (Some(bad as f64), frames, Some(0.0));
                row.verdict = if bad == 0 && intact && frames > 0 { Verdict::Pass } else { Verdict::Fail };
                row.why = format!("{version}, {frames} frames, {bad} malformed or wrongly summed; intact: {intact}");
            }
            Err(why) => (row.verdict, row.why) = (Verdict::Inconclusive, why),
        }
        rows.push(row);
    }
    Ok(rows)
}

/// Frames in a capture, and those that tshark finds malformed, wrongly summed or an error of the protocol.
pub(super) fn complaints(path: &Path) -> Result<(u64, u64), String> {
    let count = |filter: &str| -> Result<u64, String> {
        let sums = ["-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE"];
        let out = Command::new("tshark").arg("-n").arg("-r").arg(path).args(sums).args(["-Y", filter]).output();
        let out = out.map_err(|e| format!("cannot run tshark ({e}): install it (apt install tshark)"))?;
        if !out.status.success() {
            return Err(format!("tshark failed: {}", String::from_utf8_lossy(&out.stderr).trim()));
        }
        Ok(out.stdout.iter().filter(|byte| **byte == b'\n').count() as u64)
    };
    // 0x00800000 is the severity "error".
    // A sum of 0xffff is the other form of zero (RFC 1624, section 3), which Linux writes where it sums in software.
    // What segments carry is noise: of those with a good sum, a protocol that is at home on a port drawn at random, or
    // that guesses by content, would call some malformed.
    let bad = "(tcp.checksum.status == 0 || ip.checksum.status == 0 \
               || ((_ws.malformed || _ws.expert.severity >= 0x00800000) && !(tcp.len > 0 && tcp.checksum.status == 1))) \
               && !(tcp.checksum == 0xffff)";
    Ok((count("tcp")?, count(bad)?))
}
