//! Rows of the parts, judged.

use super::{Found, OURS, PRESET, Seen};
use crate::cells::{Aim, Head};
use crate::document::Row;
use serde_json::json;
use wavelane_measure::{jain, mean, percentile};
use wavelane_run::Verdict;

/// Makes a part's rows of what its scenes gave.
type Make = fn(&[&Found<'_>]) -> Vec<Row>;

/// Parts with their rows.
pub(super) fn all(found: &[Found<'_>]) -> Vec<Row> {
    let of = |part: &str| found.iter().filter(|found| found.scene.part == part).collect::<Vec<_>>();
    let makers: [(&str, Make); 12] = [
        ("links", links),
        ("mesh", mesh),
        ("chains", chains),
        ("degradation", degradation),
        ("flows", flows),
        ("wlan", wlan),
        ("delay", delay),
        ("cells", cells),
        ("both-ways", both_ways),
        ("beside", beside),
        ("phys", phys),
        ("breaks", breaks),
    ];
    let mut rows = Vec::new();
    for (part, make) in makers {
        let found = of(part);
        if !found.is_empty() {
            rows.extend(make(&found));
        }
    }
    rows
}

fn mean_of(seen: &[&Seen], of: impl Fn(&Seen) -> f64) -> f64 {
    mean(&seen.iter().map(|seen| of(seen)).collect::<Vec<_>>()).unwrap_or(0.0)
}

fn total(found: &Found<'_>, cell: &str, stack: &str) -> f64 {
    mean_of(&found.of(cell, stack), Seen::total)
}

/// The most that any plain TCP carries, with or without TXOP and RTS, and which.
fn best(found: &Found<'_>) -> (f64, String) {
    let rivals = found.rivals().into_iter().map(|(cell, stack)| (total(found, cell, stack), format!("{stack} {cell}")));
    rivals.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or_default()
}

/// What a stack carries, by seed, over so much.
fn totals(found: &Found<'_>, cell: &str, stack: &str, over: f64) -> Vec<f64> {
    found.of(cell, stack).iter().map(|seen| seen.total() / over).collect()
}

/// Ours over a rival by seed.
fn over(found: &Found<'_>, stack: &str, (cell, rival): (&str, &str)) -> Vec<f64> {
    let ratios = totals(found, "tuned", stack, total(found, cell, rival)).into_iter();
    ratios.filter(|ratio| ratio.is_finite()).collect()
}

/// A row of ours over the best, judged and with a word on which that is; or of another stack.
fn beside_best(head: &Head, metric: &str, ratios: &[f64], aim: f64, which: &str) -> Row {
    let row = head.row(metric, "ratio", ratios);
    match head.stack == OURS {
        true => row.judged(Aim::AtLeast(aim)).noting(&format!("best is {which}")),
        false => row,
    }
}

fn over_best(found: &Found<'_>, stack: &str) -> f64 {
    total(found, "tuned", stack) / best(found).0
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    crate::cells::sorted(values.filter(|value| value.is_finite()))
}

/// Percentiles of `values` as rows.
fn spread(head: &Head, metric: &str, values: &[f64], wanted: &[(u64, Option<Aim>)]) -> Vec<Row> {
    let of = |(percent, aim): &(u64, Option<Aim>)| {
        let (metric, value) = (format!("{metric}_p{percent}"), percentile(values, *percent));
        head.one(&metric, "ratio", value, values.len()).judged(*aim)
    };
    wanted.iter().map(of).collect()
}

fn lowest(head: &Head, metric: &str, values: &[f64], aim: Aim) -> Row {
    head.one(&format!("{metric}_lowest"), "ratio", values.first().copied(), values.len()).judged(aim)
}

/// Goodput of one scene's stacks, with its bound.
fn goodputs(id: &'static str, found: &Found<'_>) -> Vec<Row> {
    let mut stacks: Vec<(&str, &str)> = found.scene.runs.iter().map(|run| (run.cell, run.stack)).collect();
    stacks.dedup();
    let of = |(cell, stack): (&str, &str)| {
        let head = Head::sim(id, &found.scene.case, stack).and("cell", cell);
        let row = head.row("goodput_bps", "bit/s", &totals(found, cell, stack, 1.0)).bound_by(found.scene.bound);
        let frames = |of: fn(&Seen) -> f64| mean_of(&found.of(cell, stack), of);
        let (data, unanswered) = (frames(|seen| seen.data), frames(|seen| seen.unanswered));
        let others = frames(|seen| seen.others);
        let why = format!(
            "{data:.0} data frames/s, {unanswered:.0} of them without their ACK; {others:.0} ACKs, CTS and RTS"
        );
        Row { why, ..row }
    };
    stacks.into_iter().map(of).collect()
}

fn links(found: &[&Found<'_>]) -> Vec<Row> {
    let mut rows = Vec::new();
    for stack in [OURS, PRESET] {
        let ours = stack == OURS;
        let aim = |aim: f64| ours.then_some(Aim::AtLeast(aim));
        let head = Head::sim("S2-E2", &[], stack);
        let old = sorted(found.iter().flat_map(|found| over(found, stack, ("shipped", "tcp-2001"))));
        rows.extend(spread(
            &head,
            "over_shipped_tcp_2001",
            &old,
            &[(10, None), (25, aim(1.5)), (50, aim(1.6)), (75, aim(3.0)), (90, aim(7.0))],
        ));
        let best = sorted(found.iter().map(|found| over_best(found, stack)));
        rows.extend(spread(&head, "over_best", &best, &[(50, aim(1.3))]));
        if ours {
            rows.push(lowest(&head, "over_best", &best, Aim::AtLeast(0.95)));
        }
    }
    // S2-E1: what is advertised, and what is left of it.
    rows.extend(found.iter().flat_map(|found| goodputs("S2-E2", found)));
    rows
}

fn mesh(found: &[&Found<'_>]) -> Vec<Row> {
    let mut rows = Vec::new();
    for stack in [OURS, PRESET] {
        let ours = stack == OURS;
        let aim = |aim: f64| ours.then_some(Aim::AtLeast(aim));
        let head = Head::sim("S2-E3", &[("pairs", json!(found.len()))], stack);
        let share = sorted(found.iter().filter_map(|f| Some(total(f, "tuned", stack) / f.scene.bound?)));
        rows.extend(spread(&head, "of_bound", &share, &[(10, aim(0.7)), (50, aim(0.85))]));
        let best = sorted(found.iter().map(|found| over_best(found, stack)));
        rows.extend(spread(&head, "over_best", &best, &[(25, None), (50, aim(1.25)), (75, None)]));
        if ours {
            rows.push(lowest(&head, "over_best", &best, Aim::AtLeast(0.95)));
        }
        let cubic = sorted(found.iter().flat_map(|found| over(found, stack, ("shipped", "tcp-cubic"))));
        rows.extend(spread(&head, "over_shipped_cubic", &cubic, &[(25, None), (50, aim(1.5)), (75, None)]));
    }
    rows.extend(found.iter().flat_map(|found| goodputs("S2-E3", found)));
    rows
}

fn chains(found: &[&Found<'_>]) -> Vec<Row> {
    let mut rows = Vec::new();
    for found in found {
        let hidden = found.scene.case.iter().any(|(_, value)| value == "next but one hidden");
        let (over_best_aim, over_cubic_aim) = if hidden { (1.5, 2.2) } else { (1.19, 1.4) };
        let (most, which) = best(found);
        for stack in [OURS, PRESET] {
            let (head, ours) = (Head::sim("S2-E3", &found.scene.case, stack), stack == OURS);
            let cubic = head.row("over_shipped_cubic", "ratio", &over(found, stack, ("shipped", "tcp-cubic")));
            rows.push(cubic.judged(ours.then_some(Aim::AtLeast(over_cubic_aim))));
            let shares = totals(found, "tuned", stack, found.scene.bound.unwrap_or(f64::NAN));
            let aim = (ours && !hidden).then_some(Aim::AtLeast(0.85));
            rows.push(head.row("of_bound", "ratio", &shares).judged(aim));
            let ratios = totals(found, "tuned", stack, most);
            rows.push(beside_best(&head, "over_best", &ratios, over_best_aim, &which));
        }
        rows.extend(goodputs("S2-E3", found));
    }
    rows
}

fn degradation(found: &[&Found<'_>]) -> Vec<Row> {
    let mut rows = Vec::new();
    for found_here in found {
        let (kind, share) = (&found_here.scene.case[0].1, found_here.scene.case[1].1.as_f64().unwrap_or(0.0));
        let clean = found.iter().find(|of| of.scene.case[0].1 == *kind && of.scene.case[1].1 == json!(0.0));
        let Some(clean) = clean.filter(|_| share > 0.0) else { continue };
        let of = |cell: &str, stack: &str| total(found_here, cell, stack) / total(clean, cell, stack);
        let row = |stack: &str, value: f64| {
            Head::sim("S2-E4", &found_here.scene.case, stack).row("of_clean", "ratio", &[value]).bound_by(1.0 - share)
        };
        rows.push(row(OURS, of("tuned", OURS)).judged(Aim::AtLeast(0.8 * (1.0 - share))));
        rows.push(row(PRESET, of("tuned", PRESET)));
        rows.push(row("tcp-cubic", of("shipped", "tcp-cubic")));
        let old = row("tcp-2001", of("shipped", "tcp-2001"));
        let limit = if share < 0.15 { 0.2 } else { 0.05 };
        rows.push(if kind == "drop" && share <= 0.2 { old.judged(Aim::AtMost(limit)) } else { old });
    }
    rows
}

fn flows(found: &[&Found<'_>]) -> Vec<Row> {
    let pool = |cell: &str, stack: &str| sorted(found.iter().flat_map(|f| f.of(cell, stack)).flat_map(Seen::goodputs));
    let fair = |cell: &str, stack: &str| {
        mean_of(&found.iter().flat_map(|f| f.of(cell, stack)).collect::<Vec<_>>(), |seen| {
            jain(&seen.goodputs()).unwrap_or(0.0)
        })
    };
    let mut rows = Vec::new();
    let rivals = found[0].rivals();
    let everybody = [("tuned", OURS), ("tuned", PRESET)].into_iter().chain(rivals.iter().copied());
    for (cell, stack) in everybody {
        let (all, head) = (pool(cell, stack), Head::sim("S2-E5", &[], stack).and("cell", cell));
        let one = |metric: &str, value: Option<f64>| head.one(metric, "bit/s", value, all.len());
        let still = all.iter().filter(|bps| **bps < 1_000.0).count() as f64;
        let cubic = pool("shipped", "tcp-cubic");
        let more = |of: Option<f64>, times: f64| Aim::AtLeast(of.unwrap_or(0.0) * times);
        let fairest = rivals.iter().map(|(cell, stack)| fair(cell, stack)).fold(0.0, f64::max);
        let judged = |row: Row, aim: Aim| row.judged((stack == OURS).then_some(aim));
        rows.extend([
            judged(one("median_bps", percentile(&all, 50)), more(percentile(&cubic, 50), 4.0)),
            judged(one("mean_bps", mean(&all)), more(mean(&cubic), 0.6)),
            judged(head.row("flows_below_1_kbps", "flows", &[still]), Aim::AtMost(found.len() as f64)),
            judged(head.row("jain", "index", &[fair(cell, stack)]), Aim::Above(fairest)),
            one("lower_quartile_bps", percentile(&all, 25)),
        ]);
    }
    rows
}

fn wlan(found: &[&Found<'_>]) -> Vec<Row> {
    let mut rows = Vec::new();
    for found in found {
        let (most, which) = best(found);
        for stack in [OURS, PRESET] {
            let (head, ours) = (Head::sim("S2-E6", &found.scene.case, stack), stack == OURS);
            let seen = found.of("tuned", stack);
            let middle = |seen: &&Seen| percentile(&sorted(seen.goodputs().into_iter()), 50);
            let even: Vec<f64> =
                seen.iter().filter_map(|s| Some(middle(s)? * s.goodputs().len() as f64 / s.total())).collect();
            let fair: Vec<f64> = seen.iter().filter_map(|seen| jain(&seen.goodputs())).collect();
            let ratios = totals(found, "tuned", stack, most);
            rows.push(beside_best(&head, "mean_over_best", &ratios, 1.2, &which));
            let even = head.row("median_over_mean", "ratio", &even);
            rows.push(if ours { even.between(0.9, 1.1) } else { even });
            rows.push(head.row("jain", "index", &fair).judged(ours.then_some(Aim::AtLeast(0.95))));
        }
        rows.extend(goodputs("S2-E6", found));
    }
    rows
}

/// The small transfers' durations, unfinished ones as long as there was time, and the bulk.
fn small(found: &Found<'_>, cell: &str, stack: &str) -> (Option<f64>, f64) {
    let seen = found.of(cell, stack);
    let flows = || seen.iter().flat_map(|seen| &seen.flows);
    let took = flows().filter(|f| f.flow.starts_with("small")).map(|f| f.duration_ms.unwrap_or(20_000.0));
    let bulk =
        mean_of(&seen, |seen| seen.flows.iter().filter(|f| f.flow.starts_with("up")).map(|f| f.goodput_bps).sum());
    (percentile(&sorted(took), 50), bulk)
}

fn delay(found: &[&Found<'_>]) -> Vec<Row> {
    let mut rows = Vec::new();
    for found in found {
        let (ours, bulk) = small(found, "tuned", OURS);
        let rivals: Vec<_> =
            found.rivals().into_iter().map(|(cell, stack)| (small(found, cell, stack), cell, stack)).collect();
        let worthy = rivals.iter().filter(|((_, theirs), ..)| *theirs >= bulk / 2.0);
        let quickest = worthy.filter_map(|((took, _), ..)| *took).fold(f64::INFINITY, f64::min);
        let most = rivals.iter().map(|((_, bulk), ..)| *bulk).fold(0.0, f64::max);
        let head = |stack: &str| Head::sim("S2-E7", &found.scene.case, stack);
        rows.push(head(OURS).one("median_ms", "ms", ours, 1).judged(Aim::Below(quickest)));
        rows.push(head(OURS).row("bulk_over_best", "ratio", &[bulk / most]).judged(Aim::AtLeast(1.2)));
        let preset = std::iter::once((small(found, "tuned", PRESET), "tuned", PRESET));
        for ((took, bulk), cell, stack) in preset.chain(rivals) {
            let row = head(stack).and("cell", cell).one("median_ms", "ms", took, 0);
            rows.push(Row { why: format!("beside {:.2} Mbit/s", bulk / 1e6), ..row });
        }
    }
    rows
}

fn echo_p95(seen: &[&Seen]) -> Option<f64> {
    mean(&seen.iter().flat_map(|seen| &seen.flows).filter_map(|flow| flow.p95_ms).collect::<Vec<_>>())
}

fn cells(found: &[&Found<'_>]) -> Vec<Row> {
    let mut rows = Vec::new();
    for found in found {
        let ours = found.of("shipped", OURS);
        let head = Head::sim("cells", &found.scene.case, OURS);
        let (most, which) = best(found);
        rows.push(beside_best(&head, "goodput_over_best", &totals(found, "shipped", OURS, most), 0.98, &which));
        let fair: Vec<f64> = ours.iter().filter_map(|seen| jain(&seen.goodputs())).collect();
        rows.push(head.row("jain", "index", &fair).judged(Aim::AtLeast(0.95)));
        let half = total(found, "shipped", OURS) / 2.0;
        let worthy = found.rivals().into_iter().filter(|(cell, stack)| total(found, cell, stack) >= half);
        let quickest =
            worthy.filter_map(|(cell, stack)| echo_p95(&found.of(cell, stack))).fold(f64::INFINITY, f64::min);
        let echoes: Vec<f64> = echo_p95(&ours).into_iter().collect();
        rows.push(head.row("echo_p95_ms", "ms", &echoes).judged(Aim::AtMost(quickest)));
        let drops: Vec<f64> = ours.iter().map(|seen| seen.own_drops).collect();
        rows.push(head.row("own_drops_per_s", "frames/s", &drops).judged(Aim::Below(1.0)));
    }
    rows
}

fn both_ways(found: &[&Found<'_>]) -> Vec<Row> {
    let mut rows = Vec::new();
    for found in found {
        let (most, which) = best(found);
        for stack in [OURS, PRESET] {
            let head = Head::sim("both-ways", &found.scene.case, stack);
            let seen = found.of("tuned", stack);
            let weaker: Vec<f64> =
                seen.iter().map(|s| s.goodputs().into_iter().fold(f64::INFINITY, f64::min) / s.total()).collect();
            let aim = (stack == OURS).then_some(Aim::AtLeast(0.3));
            rows.push(head.row("weaker_share", "ratio", &weaker).judged(aim));
            let sums = totals(found, "tuned", stack, most);
            rows.push(beside_best(&head, "sum_over_best", &sums, 1.1, &which));
        }
        rows.extend(goodputs("both-ways", found));
    }
    rows
}

fn beside(found: &[&Found<'_>]) -> Vec<Row> {
    let plain = |stack: &str| {
        let of = |seen: &Seen| -> f64 {
            seen.flows.iter().filter(|flow| flow.flow == "plain").map(|flow| flow.goodput_bps).sum()
        };
        mean_of(&found[0].of("tuned", stack), of)
    };
    let row = Head::sim("beside", &[], OURS).row("plain_tcp_keeps", "ratio", &[plain(OURS) / plain("tcp-cubic")]);
    vec![row.judged(Aim::AtLeast(0.8))]
}

fn phys(found: &[&Found<'_>]) -> Vec<Row> {
    let mut rows = Vec::new();
    for found in found {
        let (most, which) = best(found);
        let one = found.scene.case.iter().any(|(key, value)| *key == "hops" && *value == json!(1));
        for stack in [OURS, PRESET] {
            let (head, aim) = (Head::sim("phys", &found.scene.case, stack), if one { 1.05 } else { 1.0 });
            rows.push(beside_best(&head, "over_best", &totals(found, "tuned", stack, most), aim, &which));
        }
        rows.extend(goodputs("phys", found));
    }
    rows
}

/// Until data comes again where the path is mended: 250 ms and one and a half round trips of three hops, of 13 ms each.
const AGAIN_MS: f64 = 270.0;

/// S2-E13's rows of one stack.
pub(super) fn broken(head: &Head, seen: &[&Seen]) -> Vec<Row> {
    let flows = || seen.iter().flat_map(|seen| &seen.flows);
    let whole: Vec<f64> = flows().map(|flow| f64::from(u8::from(flow.whole))).collect();
    let again: Option<Vec<f64>> = flows().map(|flow| flow.again_ms).collect();
    let ours = head.stack == OURS;
    let row = head.row("again_ms", "ms", again.as_deref().unwrap_or_default());
    let verdict = if ours { Verdict::Fail } else { Verdict::Info };
    // Where nothing came again there is no time to take a mean of.
    let row = match again {
        Some(_) => row.judged(ours.then_some(Aim::AtMost(AGAIN_MS))),
        None => Row { verdict, why: "not before the end".into(), ..row },
    };
    vec![head.row("whole", "share", &whole).judged(ours.then_some(Aim::AtLeast(1.0))), row]
}

fn breaks(found: &[&Found<'_>]) -> Vec<Row> {
    let mut rows = Vec::new();
    for found in found {
        let mut stacks: Vec<(&str, &str)> = found.scene.runs.iter().map(|run| (run.cell, run.stack)).collect();
        stacks.dedup();
        for (cell, stack) in stacks {
            let head = Head::sim("S2-E13", &found.scene.case, stack).and("cell", cell);
            rows.extend(broken(&head, &found.of(cell, stack)));
        }
    }
    rows
}
