//! Rows of a population: one per member and figure, and the claims about the whole family.

use super::draw::{Draw, Set};
use super::store::Seen;
use super::{AGAIN_BELOW, BBR, ID, Member, OURS};
use crate::cells::{Aim, sorted};
use crate::document::Row;
use serde_json::{Map, Value, json};
use wavelane_measure::percentile;
use wavelane_run::Verdict;

/// The aims. The mix loses nothing in a third of its directions, where the gateways' headers bound us below a full TCP.
const MEDIAN_AIM: f64 = 1.0;
const TENTH_AIM: f64 = 0.97;
const TENTH_HARD_AIM: f64 = 0.93;
const WORST_SHARE_AIM: f64 = 0.995;
const ECHO_SHARE_AIM: f64 = 0.95;
const WIRE_SHARE_AIM: f64 = 0.95;
/// The claims about a family are judged from this many members on: a tenth of fewer would be less than one member.
pub(super) const JUDGED_MIN: usize = 20;
/// A TCP is a rival in delay from this share of our goodput on: one that hardly sends builds no queue.
const RIVAL_SHARE: f64 = 0.5;
/// Our echo may take this much longer than a rival's: a factor, and in ms beside one packet's serialisation.
const ECHO_TIMES: f64 = 1.05;
const ECHO_MORE_MS: f64 = 10.0;
/// Bytes on the link per byte delivered, times BBR's.
const WIRE_TIMES: f64 = 1.2;
/// The key of a member in the case of its row.
pub(super) const DRAW: &str = "draw";
pub(super) const RATE: &str = "rate_mbit";
pub(super) const RTT: &str = "rtt_ms";
pub(super) const LOSS: &str = "loss";
/// A member's figures that are drawn.
pub(super) const RATIO_METRIC: &str = "goodput_ratio";
pub(super) const ECHO_METRIC: &str = "echo_p95_of_allowed";
/// What a full IP packet of 1,500 bytes carries of a stream through the gateways.
const PAYLOAD: f64 = 1_437.0 / 1_500.0;

fn ours(seen: &[Seen]) -> Option<&Seen> {
    seen.iter().find(|s| s.stack == OURS)
}

fn rivals(seen: &[Seen]) -> impl Iterator<Item = &Seen> {
    seen.iter().filter(|s| s.stack != OURS)
}

fn best(seen: &[Seen]) -> Option<&Seen> {
    rivals(seen).max_by(|a, b| a.share.total_cmp(&b.share))
}

/// Ours over the best TCP's, each the mean over the bodies of the share of what their direction carries.
pub(super) fn ratio(seen: &[Seen]) -> Option<f64> {
    let (ours, best) = (ours(seen)?, best(seen)?);
    (best.share > 0.0).then(|| ours.share / best.share)
}

/// Our echo's p95 over what the rival with the calmest echo allows; nothing without a rival.
fn echo_of_allowed(member: &Member) -> Option<f64> {
    let ours = ours(&member.seen)?;
    let rivals = rivals(&member.seen).filter(|s| s.share >= RIVAL_SHARE * ours.share);
    let least = rivals.filter_map(|s| s.rtt_p95_ms).min_by(f64::total_cmp)?;
    Some(ours.rtt_p95_ms? / (ECHO_TIMES * least + ECHO_MORE_MS + member.draw.packet_ms()))
}

/// Our bytes on the link per byte delivered over BBR's.
fn wire_ratio(member: &Member) -> Option<f64> {
    let of = |stack: &str| member.seen.iter().find(|s| s.stack == stack)?.wire_bytes_per_delivered_byte;
    Some(of(OURS)? / of(BBR)?)
}

/// The case that tells a member's rows from others'.
pub(super) fn case_of(draw: &Draw) -> Map<String, Value> {
    // Of the body that comes down, if one does.
    let way = draw.loaded()[0];
    let case = [
        (DRAW, json!(draw.number)),
        (RATE, json!(way.rate as f64 / 1e6)),
        (RTT, json!(draw.rtt_ms.round())),
        (LOSS, json!(way.loss.word())),
    ];
    case.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

fn member_row(member: &Member, metric: &str, unit: &str, value: Option<f64>) -> Option<Row> {
    Some(Row { case: case_of(&member.draw), value: Some(value?), n: 1, ..Row::new(ID, "sim", OURS, metric, unit) })
}

/// The row that tells how a member ended.
pub(super) fn ratio_row(member: &Member) -> Option<Row> {
    let (ours, best) = (ours(&member.seen)?, best(&member.seen)?);
    let mut row = member_row(member, RATIO_METRIC, "ratio", ratio(&member.seen))?;
    row.bound = ceiling(member);
    let mbit = |seen: &Seen| {
        let each: Vec<String> = seen.goodputs_bps.iter().map(|bps| format!("{:.3}", bps / 1e6)).collect();
        each.join(" + ")
    };
    let ms = |seen: &Seen| seen.rtt_p95_ms.map_or("-".into(), |ms| format!("{ms:.0}"));
    let again: Vec<String> = member.again.iter().filter_map(|seen| ratio(seen)).map(|r| format!("{r:.3}")).collect();
    let again = if again.is_empty() { String::new() } else { format!(", other dice {}", again.join(" ")) };
    row.why = format!(
        "{} beside {} Mbit/s of {}{again}; echo {} beside {} ms; wire {:.2}; {}; wavelane study run {ID} --seed {} \
         --draws {n}..{n}",
        mbit(ours),
        mbit(best),
        best.stack,
        ms(ours),
        ms(best),
        wire_ratio(member).unwrap_or(f64::NAN),
        member.draw.words(),
        member.draw.family.0,
        n = member.draw.number,
    );
    Some(row)
}

/// All rows: the family's claims first.
pub(super) fn rows(members: &[Member]) -> Vec<Row> {
    let mut rows = Vec::new();
    for set in Set::ALL {
        let these: Vec<&Member> = members.iter().filter(|m| m.draw.set() == set).collect();
        if these.is_empty() {
            continue;
        }
        let mut claims = goodput(&these);
        claims.push(echo(&these));
        // Bytes on the air are not counted.
        claims.extend((set != Set::Radio).then(|| wire(&these)));
        for claim in &mut claims {
            if set != Set::Mixed {
                claim.metric = format!("{}_{}", set.word(), claim.metric);
            }
        }
        rows.extend(claims);
    }
    for member in members {
        rows.extend(ratio_row(member));
        rows.extend(member_row(member, ECHO_METRIC, "ratio", echo_of_allowed(member)));
        rows.extend(member_row(member, "wire_ratio", "ratio", wire_ratio(member)));
    }
    rows
}

pub(super) fn claim(metric: &str, unit: &str, value: Option<f64>, n: usize, bound: Option<f64>, aim: Aim) -> Row {
    let mut row = Row { value, bound, n: n as u64, ..Row::new(ID, "sim", OURS, metric, unit) };
    row = row.judged(aim);
    if n < JUDGED_MIN {
        row.verdict = Verdict::Info;
        let draws = if n == 1 { "draw" } else { "draws" };
        row.why = format!("{}; {n} {draws}, judged from {JUDGED_MIN} on", row.why);
    }
    row
}

/// The mean over the dice where a member was run again.
fn ratio_of(member: &Member) -> Option<f64> {
    let all: Vec<f64> = member.again.iter().filter_map(|seen| ratio(seen)).collect();
    if all.is_empty() { ratio(&member.seen) } else { Some(all.iter().sum::<f64>() / all.len() as f64) }
}

/// The ratio if all that can arrive does; of a radio cell nobody knows.
fn ceiling(member: &Member) -> Option<f64> {
    let best = best(&member.seen).filter(|_| member.draw.radio.is_none())?;
    Some(PAYLOAD / best.share)
}

fn goodput(members: &[&Member]) -> Vec<Row> {
    let ratios = |hard: Option<bool>| {
        let these = members.iter().filter(|m| hard.is_none_or(|hard| m.draw.is_hard() == hard));
        sorted(these.filter_map(|m| ratio(&m.seen)))
    };
    let ceilings = |hard: Option<bool>| {
        let these = members.iter().filter(|m| hard.is_none_or(|hard| m.draw.is_hard() == hard));
        sorted(these.filter_map(|m| ceiling(m)))
    };
    let mut rows = Vec::new();
    for (metric, percent, hard, aim) in [
        ("goodput_ratio_median", 50, None, MEDIAN_AIM),
        ("goodput_ratio_worst_tenth", 10, Some(false), TENTH_AIM),
        ("goodput_ratio_worst_tenth_slow_or_walking", 10, Some(true), TENTH_HARD_AIM),
    ] {
        let (values, bound) = (ratios(hard), percentile(&ceilings(hard), percent));
        if values.is_empty() && hard.is_some() {
            continue;
        }
        rows.push(claim(metric, "ratio", percentile(&values, percent), values.len(), bound, Aim::AtLeast(aim)));
    }
    let final_ratios = sorted(members.iter().filter_map(|m| ratio_of(m)));
    let held = final_ratios.iter().filter(|r| **r >= AGAIN_BELOW).count();
    let share = (!final_ratios.is_empty()).then(|| held as f64 / final_ratios.len() as f64);
    let n = final_ratios.len();
    rows.push(
        claim("goodput_ratio_085_share", "share", share, n, Some(1.0), Aim::AtLeast(WORST_SHARE_AIM))
            .noting(&format!("{held} of {n} draws reach {AGAIN_BELOW}")),
    );
    let mut row = Row {
        value: ratios(None).first().copied(),
        n: n as u64,
        ..Row::new(ID, "sim", OURS, "goodput_ratio_worst", "ratio")
    };
    row.bound = ceilings(None).first().copied();
    row.verdict = Verdict::Info;
    row.why = "the worst draw, before it was run again".into();
    rows.push(row);
    rows
}

fn share(values: &[f64], holds: impl Fn(f64) -> bool) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().filter(|v| holds(**v)).count() as f64 / values.len() as f64)
}

fn echo(members: &[&Member]) -> Row {
    let over: Vec<f64> = members.iter().filter_map(|m| echo_of_allowed(m)).collect();
    let inside = share(&over, |over| over <= 1.0);
    let mut row = claim("echo_p95_share", "share", inside, over.len(), Some(1.0), Aim::AtLeast(ECHO_SHARE_AIM));
    row.why = format!(
        "{}; of draws whose echo p95 is at most {ECHO_TIMES} times that of any TCP with half our goodput, + {ECHO_MORE_MS} \
         ms and a packet",
        row.why
    );
    row
}

fn wire(members: &[&Member]) -> Row {
    let ratios: Vec<f64> = members.iter().filter_map(|m| wire_ratio(m)).collect();
    let inside = share(&ratios, |ratio| ratio <= WIRE_TIMES);
    let mut row = claim("wire_share", "share", inside, ratios.len(), Some(1.0), Aim::AtLeast(WIRE_SHARE_AIM));
    row.why =
        format!("{}; of draws with at most {WIRE_TIMES} times BBR's bytes on the link per byte delivered", row.why);
    row
}
