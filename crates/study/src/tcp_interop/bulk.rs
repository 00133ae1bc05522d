//! Transfers each way between ours and the kernel, with losses and with reordering: every byte
//! intact, captures that tshark reads without a complaint, and the counters of the kernel in our place.

use super::counts::compare;
use super::{Control, ID, LINK, Seeds, Watch, Who, fight, judge_ratio, link, losing, row};
use crate::document::Row;
use crate::kept::Kept;
use crate::ours::Ours;
use crate::runner::Runner;
use crate::{StudyError, StudyOptions};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::Path;
use std::process::Command;
use wavelane_base::{Ratio, Seed, Span};
use wavelane_channel::{CableConfig, Cause, Reorder};
use wavelane_lab::duel::{Duel, DuelEnd, Load};
use wavelane_run::{Progress, Verdict};

/// Bytes per transfer by edition.
const OCTETS: [u64; 2] = [20_000_000, 200_000_000];
/// The same over a link of a tenth of the rate.
const OCTETS_SLOW: [u64; 2] = [20_000_000, 50_000_000];
/// Bytes of the transfers that are captured whole.
const CAPTURED_OCTETS: u64 = 10_000_000;
const CAPTURED_QUEUE: u64 = 500_000;
/// How far ours may be from the kernel's speed, judged for BBR.
const SPEED_WITHIN: f64 = 0.2;
const ROUND_TRIP: Span = Span::from_millis(2);
/// A tenth of the rate, ten times the round trip, and a receive window of four times their product, so that the network and
/// not a full send buffer decides when more may be sent.
const SLOW: (u64, Span) = (100, Span::from_millis(20));
const SLOW_WINDOW: u32 = 1_000_000;
/// More than a send buffer of either (4 MiB) puts in flight: no queue overflows, so what is retransmitted is what the link's
/// dice lost and what was believed lost.
const QUEUE: u64 = 6_000_000;
/// Counts are compared over this many seeds, by edition. Where frames are a little late there are few needless retransmissions, so chance
/// is large; with Linux alone, too, one run in some twenty has ten times as many as the others (decision 0018).
const SEEDS: [u64; 2] = [4, 4];
const SEEDS_LATE: [u64; 2] = [4, 24];
const SEEDS_LATE_SLOW: [u64; 2] = [4, 12];
/// A transfer slower than this is given up.
const LIMIT: Span = Span::from_secs(120);
/// What a link does to the frames towards the receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Trouble {
    Loss,
    /// By half a round trip: RACK's window grows until it covers that and the sender's own bursts, by a step per round trip
    /// that had a needless retransmission. At 1 Gbit/s the bursts are many times the lateness: a send buffer of 4 MiB is
    /// refilled by thirds, 11 ms of the link, so the hosts decide the count as much as TCP does.
    Late,
    /// By half a round trip over a link so slow that the bursts do not matter.
    LateSlow,
    /// By three round trips, and by ten for BBR, whose window of two products and more makes the round trip three times as
    /// long: more than RACK's window ever is (RFC 8985, section 6.2, step 4: one smoothed round trip), so all that is late
    /// is retransmitted as if it were lost.
    VeryLate,
}

impl Trouble {
    pub(super) const ALL: [Self; 4] = [Self::Loss, Self::Late, Self::LateSlow, Self::VeryLate];

    /// The parts of the study that it belongs to.
    pub(super) fn parts(self) -> &'static [&'static str] {
        match self {
            Self::Loss => &["loss"],
            Self::Late => &["reordering", "late"],
            Self::LateSlow => &["reordering", "late-slow"],
            Self::VeryLate => &["reordering", "very-late"],
        }
    }
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Loss => "0.1 % loss",
            Self::Late => "1 % of frames 1 ms late",
            Self::LateSlow => "1 % of frames 10 ms late at 100 Mbit/s",
            Self::VeryLate => "1 % of frames later than a round trip",
        }
    }
    fn cable(self, control: Control) -> CableConfig {
        let mut cable = link(1_000, ROUND_TRIP, QUEUE);
        let late = |extra| Reorder { p: Ratio::new(1, 100).expect("at most the whole"), extra };
        match self {
            Self::Loss => cable = losing(cable, 1),
            Self::Late => cable.forward.reorder = late(ROUND_TRIP.scale(1, 2)),
            Self::LateSlow => {
                cable = link(SLOW.0, SLOW.1, QUEUE);
                cable.forward.reorder = late(SLOW.1.scale(1, 2));
            }
            Self::VeryLate => {
                let round_trips = if control == Control::Bbr { 10 } else { 3 };
                cable.forward.reorder = late(ROUND_TRIP.times(round_trips));
            }
        }
        cable
    }
    fn octets(self, full: bool) -> u64 {
        let by_edition = if self == Self::LateSlow { OCTETS_SLOW } else { OCTETS };
        by_edition[usize::from(full)]
    }
    fn seeds(self, full: bool) -> u64 {
        let by_edition = match self {
            Self::Loss | Self::VeryLate => SEEDS,
            Self::Late => SEEDS_LATE,
            Self::LateSlow => SEEDS_LATE_SLOW,
        };
        by_edition[usize::from(full)]
    }
    fn window(self) -> Option<u32> {
        (self == Self::LateSlow).then_some(SLOW_WINDOW)
    }
}

/// What counts of one transfer.
#[derive(Serialize, Deserialize)]
pub(super) struct Counted {
    goodput: Option<f64>,
    intact: bool,
    pub(super) retransmits: u64,
    /// Frames that the link's queue dropped: due to the sender's speed, not the link's dice.
    overflow: u64,
    pub(super) timeouts: u64,
    pub(super) inconclusive: Option<String>,
}

fn counted(end: &DuelEnd<Ours>) -> Counted {
    let flow = &end.flows[0];
    let span = flow.last_ns.unwrap_or(0).saturating_sub(flow.first_ns.unwrap_or(0));
    let kernel = |name: &str| end.kernel[0].as_ref().and_then(|all| all.get(name)).copied();
    let ours = end.hosts[0].as_ref().and_then(|host| host.0.statuses().next()).map(|status| status.counters);
    Counted {
        goodput: (span > 0).then(|| flow.octets as f64 * 8e9 / span as f64),
        intact: flow.intact == Some(true),
        retransmits: kernel("TcpRetransSegs").or(ours.map(|c| c.retransmits)).unwrap_or(0),
        overflow: end.link[0].dropped(Cause::Queue).frames,
        timeouts: kernel("TcpExtTCPTimeouts").or(ours.map(|c| c.timeouts)).unwrap_or(0),
        inconclusive: end.inconclusive.clone(),
    }
}

/// Who sends and who receives: Linux alone, ours in the sender's place, and both in each other's.
const PAIRS: [[Who; 2]; 3] = [[Who::Kernel, Who::Kernel], [Who::Ours, Who::Kernel], [Who::Kernel, Who::Ours]];

fn words(pair: [Who; 2]) -> String {
    format!("{} to {}", pair[0].word(), pair[1].word())
}

/// One transfer.
#[derive(Clone, Copy, Debug)]
struct Transfer {
    control: Control,
    seed: Seed,
    pair: [Who; 2],
}

pub(super) fn rows(
    options: &StudyOptions,
    full: bool,
    trouble: Trouble,
    watch: Watch<'_>,
) -> Result<Vec<Row>, StudyError> {
    let mut rows = Vec::new();
    let octets = trouble.octets(full);
    let mut tasks = Vec::new();
    for control in Control::ALL {
        // The pairs take turns, so that other load on the machine affects all alike.
        for seed in (0..trouble.seeds(full)).map(|i| Seed(options.seed.0 + i)) {
            tasks.extend(PAIRS.map(|pair| Transfer { control, seed, pair }));
        }
    }
    let work = |task: &Transfer| {
        let Transfer { control, seed, pair } = *task;
        tell(watch, control, seed, &format!("{}, {}", words(pair), trouble.word()));
        let duel = Duel { window: trouble.window(), ..duel(seed, trouble.cable(control), octets) };
        Ok(counted(&fight(&duel, pair, control, watch.cancelled)?))
    };
    let runner = Runner { what: "transfers", workers: 1, hooks: watch };
    let key = |task: &Transfer| format!("{trouble:?} {task:?}");
    let mut counted = runner.run_kept(&Kept::open(options, ID), &tasks, |_| 1.0, key, work)?.into_iter();
    for control in Control::ALL {
        let mut seen: [Vec<Counted>; 3] = Default::default();
        for _ in 0..trouble.seeds(full) {
            seen.iter_mut().zip(counted.by_ref()).for_each(|(seen, counted)| seen.push(counted));
        }
        rows.extend(PAIRS.into_iter().zip(&seen).map(|(pair, seen)| transfers(control, trouble, pair, octets, seen)));
        let [linux, ours, swapped] = &seen;
        rows.extend(compare(control, trouble, "the same receiver", ours, linux));
        rows.extend(compare(control, trouble, "roles swapped", ours, swapped));
        rows.push(speed(control, trouble, ours, linux));
    }
    Ok(rows)
}

fn duel(seed: Seed, cable: CableConfig, octets: u64) -> Duel {
    let (name, flows, load, limit) = (LINK.to_owned(), 1, Load::Octets(octets), LIMIT);
    Duel { name, seed, cable, flows, load, limit, ipv6: false, window: None, capture: None }
}

pub(super) fn tell(watch: Watch<'_>, control: Control, seed: Seed, note: &str) {
    let (at, of) = (Span::ZERO, Span::ZERO);
    (watch.progress)(Progress { stack: control.stack(), seed, at, of, note: note.to_owned() });
}

/// The transfers of one pair: intact, and how fast.
fn transfers(control: Control, trouble: Trouble, pair: [Who; 2], octets: u64, seen: &[Counted]) -> Row {
    let case = json!({ "from": pair[0].word(), "to": pair[1].word(), "trouble": trouble.word(), "octets": octets });
    let mut row = row("lab", control.word(), "intact", "share", case);
    let intact = seen.iter().filter(|c| c.intact).count();
    row.value = Some(intact as f64 / seen.len().max(1) as f64);
    row.n = seen.len() as u64;
    row.verdict = if intact == seen.len() && intact > 0 { Verdict::Pass } else { Verdict::Fail };
    let list = |of: fn(&Counted) -> u64| seen.iter().map(|c| of(c).to_string()).collect::<Vec<_>>().join(", ");
    row.why = format!(
        "{}, {}: {} Mbit/s, {} segments repeated, the queue dropped {}, {} timeouts",
        words(pair),
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
    let mut row = row("lab", control.word(), "goodput over the kernel's, one transfer", "ratio", case);
    let of = |seen: &[Counted]| -> Vec<f64> { seen.iter().filter_map(|c| c.goodput).collect() };
    judge_ratio(&mut row, &of(ours), &of(linux), Seeds::Same, SPEED_WITHIN);
    if control != Control::Bbr {
        row.verdict = Verdict::Info;
    }
    row.why = format!("{}: {}", trouble.word(), row.why);
    row
}

/// Short transfers, captured whole and read by tshark, over both versions of IP.
pub(super) fn captured(options: &StudyOptions, watch: Watch<'_>) -> Result<Vec<Row>, StudyError> {
    let tasks = [
        (false, [Who::Ours, Who::Kernel]),
        (false, [Who::Kernel, Who::Ours]),
        (true, [Who::Ours, Who::Kernel]),
        (true, [Who::Kernel, Who::Ours]),
    ];
    let work = |&(ipv6, who): &(bool, [Who; 2])| {
        let version = if ipv6 { "IPv6" } else { "IPv4" };
        let path = options.out.join(format!("{}-{}-{version}.pcapng", who[0].word(), who[1].word()));
        let mut duel = duel(options.seed, losing(link(200, ROUND_TRIP, CAPTURED_QUEUE), 1), CAPTURED_OCTETS);
        duel.ipv6 = ipv6;
        duel.capture = Some(path.clone());
        tell(watch, Control::Cubic, options.seed, &format!("capturing {} to {}", who[0].word(), who[1].word()));
        let end = fight(&duel, who, Control::Cubic, watch.cancelled)?;
        let case = json!({ "from": who[0].word(), "to": who[1].word(), "ip": version, "octets": CAPTURED_OCTETS });
        let mut row = row("lab", "cubic", "frames tshark complains about", "frames", case);
        let intact = end.flows[0].intact == Some(true);
        match complaints(&path) {
            Ok((frames, bad)) => {
                row.value = Some(bad as f64);
                row.n = frames;
                row.bound = Some(0.0);
                row.verdict = if bad == 0 && intact && frames > 0 { Verdict::Pass } else { Verdict::Fail };
                row.why = format!("{version}, {frames} frames, {bad} malformed or wrongly summed; intact: {intact}");
            }
            Err(why) => (row.verdict, row.why) = (Verdict::Inconclusive, why),
        }
        Ok(row)
    };
    let runner = Runner { what: "captures", workers: 1, hooks: watch };
    runner.run_kept(&Kept::open(options, ID), &tasks, |_| 1.0, |task| format!("captured {task:?}"), work)
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
    // Segments carry noise: a protocol that is registered for a port drawn at random, or that guesses by content,
    // would call some of those with a good sum malformed.
    let bad = "(tcp.checksum.status == 0 || ip.checksum.status == 0 \
               || ((_ws.malformed || _ws.expert.severity >= 0x00800000) && !(tcp.len > 0 && tcp.checksum.status == 1))) \
               && !(tcp.checksum == 0xffff)";
    Ok((count("tcp")?, count(bad)?))
}
