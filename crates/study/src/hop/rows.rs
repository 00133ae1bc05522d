//! Rows of the parts, judged.

use super::{Found, OURS, PRESET, Seen};
use crate::cells::{Aim, Head};
use crate::document::Row;
use serde_json::json;
use wavelane_measure::{jain, mean, percentile};

/// Makes a part's rows of what its scenes gave.
type Make = fn(&[&Found<'_>]) -> Vec<Row>;

/// Parts with their rows.
pub(super) fn all(found: &[Found<'_>]) -> Vec<Row> {
    let of = |part: &str| found.iter().filter(|found| found.scene.part == part).collect::<Vec<_>>();
    let makers: [(&str, Make); 11] = [
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

/// Ours over a rival by seed.
fn over(found: &Found<'_>, stack: &str, (cell, rival): (&str, &str)) -> Vec<f64> {
    let theirs = total(found, cell, rival);
    let ours = found.of("tuned", stack);
    ours.iter().map(|seen| seen.total() / theirs).filter(|ratio| ratio.is_finite()).collect()
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
        let mut row = head.row(&format!("{metric}_p{percent}"), "ratio", &[]);
        row.value = percentile(values, *percent);
        row.n = values.len() as u64;
        aim.map_or(row.clone(), |aim| row.judged(aim))
    };
    wanted.iter().map(of).collect()
}

fn lowest(head: &Head, metric: &str, values: &[f64], aim: Aim) -> Row {
    let mut row = head.row(&format!("{metric}_lowest"), "ratio", &[]);
    row.value = values.first().copied();
    row.n = values.len() as u64;
    row.judged(aim)
}

/// Goodput of one scene's stacks, with its bound.
fn goodputs(id: &'static str, found: &Found<'_>) -> Vec<Row> {
    let mut stacks: Vec<(&str, &str)> = found.scene.runs.iter().map(|run| (run.cell, run.stack)).collect();
    stacks.dedup();
    let of = |(cell, stack): (&str, &str)| {
        let totals: Vec<f64> = found.of(cell, stack).iter().map(|seen| seen.total()).collect();
        let mut row = Head::sim(id, &found.scene.case, stack)
            .and("cell", cell)
            .row("goodput_bps", "bit/s", &totals)
            .bound_by(found.scene.bound);
        let frames = |of: fn(&Seen) -> f64| mean_of(&found.of(cell, stack), of);
        row.why = format!(
            "{:.0} data frames/s, {:.0} of them without their ACK; {:.0} ACKs, CTS and RTS",
            frames(|seen| seen.data),
            frames(|seen| seen.unanswered),
            frames(|seen| seen.others)
        );
        row
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
        for stack in [OURS, PRESET] {
            let head = Head::sim("S2-E3", &found.scene.case, stack);
            let (most, which) = best(found);
            let ratios: Vec<f64> = found.of("tuned", stack).iter().map(|seen| seen.total() / most).collect();
            let mut of_best = head.row("over_best", "ratio", &ratios);
            let cubic = head.row("over_shipped_cubic", "ratio", &over(found, stack, ("shipped", "tcp-cubic")));
            let bound = found.scene.bound.unwrap_or(f64::NAN);
            let shares: Vec<f64> = found.of("tuned", stack).iter().map(|seen| seen.total() / bound).collect();
            let share = head.row("of_bound", "ratio", &shares);
            if stack == OURS {
                of_best = of_best.judged(Aim::AtLeast(over_best_aim));
                of_best.why = format!("{}; best is {which}", of_best.why);
                rows.push(cubic.judged(Aim::AtLeast(over_cubic_aim)));
                rows.push(if hidden { share } else { share.judged(Aim::AtLeast(0.85)) });
            } else {
                rows.extend([cubic, share]);
            }
            rows.push(of_best);
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
        let mut median = head.row("median_bps", "bit/s", &[]);
        let mut lower = head.row("lower_quartile_bps", "bit/s", &[]);
        median.value = percentile(&all, 50);
        lower.value = percentile(&all, 25);
        median.n = all.len() as u64;
        lower.n = all.len() as u64;
        let still = all.iter().filter(|bps| **bps < 1_000.0).count() as f64;
        let still = head.row("flows_below_1_kbps", "flows", &[still]);
        let mut average = head.row("mean_bps", "bit/s", &[]);
        average.value = mean(&all);
        average.n = all.len() as u64;
        let jain = head.row("jain", "index", &[fair(cell, stack)]);
        if stack == OURS {
            let cubic = pool("shipped", "tcp-cubic");
            let more = |of: Option<f64>, times: f64| Aim::AtLeast(of.unwrap_or(0.0) * times);
            rows.push(median.judged(more(percentile(&cubic, 50), 4.0)));
            rows.push(average.judged(more(mean(&cubic), 0.6)));
            rows.push(still.judged(Aim::AtMost(found.len() as f64)));
            let fairest = rivals.iter().map(|(cell, stack)| fair(cell, stack)).fold(0.0, f64::max);
            rows.extend([jain.judged(Aim::Above(fairest)), lower]);
        } else {
            rows.extend([median, average, still, jain, lower]);
        }
    }
    rows
}

fn wlan(found: &[&Found<'_>]) -> Vec<Row> {
    let mut rows = Vec::new();
    for found in found {
        for stack in [OURS, PRESET] {
            let (most, which) = best(found);
            let head = Head::sim("S2-E6", &found.scene.case, stack);
            let seen = found.of("tuned", stack);
            let ratios: Vec<f64> = seen.iter().map(|seen| seen.total() / most).collect();
            let middle = |seen: &&Seen| percentile(&sorted(seen.goodputs().into_iter()), 50);
            let even: Vec<f64> =
                seen.iter().filter_map(|s| Some(middle(s)? * s.goodputs().len() as f64 / s.total())).collect();
            let fair: Vec<f64> = seen.iter().filter_map(|seen| jain(&seen.goodputs())).collect();
            let (mean, even, fair) = (
                head.row("mean_over_best", "ratio", &ratios),
                head.row("median_over_mean", "ratio", &even),
                head.row("jain", "index", &fair),
            );
            if stack == OURS {
                let mean = mean.judged(Aim::AtLeast(1.2)).noting(&format!("best is {which}"));
                rows.extend([mean, even.between(0.9, 1.1), fair.judged(Aim::AtLeast(0.95))]);
            } else {
                rows.extend([mean, even, fair]);
            }
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
        let mut row = Head::sim("S2-E7", &found.scene.case, OURS).row("median_ms", "ms", &[]);
        row.value = ours;
        row.n = 1;
        rows.push(row.judged(Aim::Below(quickest)));
        let row = Head::sim("S2-E7", &found.scene.case, OURS).row("bulk_over_best", "ratio", &[bulk / most]);
        rows.push(row.judged(Aim::AtLeast(1.2)));
        let preset = std::iter::once((small(found, "tuned", PRESET), "tuned", PRESET));
        for ((took, bulk), cell, stack) in preset.chain(rivals) {
            let mut row = Head::sim("S2-E7", &found.scene.case, stack).and("cell", cell).row("median_ms", "ms", &[]);
            row.value = took;
            row.why = format!("beside {:.2} Mbit/s", bulk / 1e6);
            rows.push(row);
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
        let ratios: Vec<f64> = ours.iter().map(|seen| seen.total() / most).collect();
        rows.push(
            head.row("goodput_over_best", "ratio", &ratios)
                .judged(Aim::AtLeast(0.98))
                .noting(&format!("best is {which}")),
        );
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
            let sums: Vec<f64> = seen.iter().map(|seen| seen.total() / most).collect();
            let (weaker, mut sum) =
                (head.row("weaker_share", "ratio", &weaker), head.row("sum_over_best", "ratio", &sums));
            if stack == OURS {
                sum = sum.judged(Aim::AtLeast(1.1));
                sum.why = format!("{}; best is {which}", sum.why);
                rows.push(weaker.judged(Aim::AtLeast(0.3)));
            } else {
                rows.push(weaker);
            }
            rows.push(sum);
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
            let ratios: Vec<f64> = found.of("tuned", stack).iter().map(|seen| seen.total() / most).collect();
            let mut row = Head::sim("phys", &found.scene.case, stack).row("over_best", "ratio", &ratios);
            if stack == OURS {
                row = row.judged(Aim::AtLeast(if one { 1.05 } else { 1.0 }));
                row.why = format!("{}; best is {which}", row.why);
            }
            rows.push(row);
        }
        rows.extend(goodputs("phys", found));
    }
    rows
}
