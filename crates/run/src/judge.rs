//! Checks: what must hold of the figures, with the numbers behind each verdict.

use crate::figures::FlowFigures;
use crate::record::{CheckResult, Omitted, StackResult, Verdict};
use wavelane_base::Octets;
use wavelane_measure::mean_ci95;
use wavelane_scenario::Quantity;
use wavelane_scenario::{Bound, Check, Metric, Scenario, Side, Stack};

/// Judges every check of the scenario, in its order.
pub(crate) fn checks(scenario: &Scenario, stacks: &[StackResult], omitted: &[Omitted]) -> Vec<CheckResult> {
    let judge = |check: &Check| {
        let (verdict, why) = Judge { scenario, stacks, omitted, check }.verdict();
        CheckResult { check: check.name.clone(), verdict, why }
    };
    scenario.checks.iter().map(judge).collect()
}

/// One figure of one flow.
pub fn figure(metric: Metric, stack: &StackResult, flow: &FlowFigures) -> Option<f64> {
    let flag = |b: bool| f64::from(u8::from(b));
    match metric {
        Metric::GoodputBps => flow.goodput_bps,
        Metric::DurationMs => flow.duration_ms,
        Metric::RttP50Ms => flow.rtt_p50_ms,
        Metric::RttP95Ms => flow.rtt_p95_ms,
        Metric::RttP99Ms => flow.rtt_p99_ms,
        Metric::AgeP95Ms => flow.age_p95_ms,
        Metric::Lost => flow.lost.map(|n| n as f64),
        Metric::Bytes => Some(flow.bytes as f64),
        Metric::Completed => Some(flag(flow.completed)),
        // Not compared means not shown to be intact.
        Metric::Intact => Some(flag(flow.intact == Some(true))),
        Metric::WireBytesPerDeliveredByte => stack.wire_bytes_per_delivered_byte,
        Metric::RepairShare => stack.repair_share,
    }
}

/// A figure with its unit, for people.
pub fn show(metric: Metric, value: f64) -> String {
    match metric {
        Metric::GoodputBps => rate(value),
        Metric::DurationMs | Metric::RttP50Ms | Metric::RttP95Ms | Metric::RttP99Ms | Metric::AgeP95Ms => {
            if value < 10_000.0 { format!("{value:.1} ms") } else { format!("{:.2} s", value / 1e3) }
        }
        Metric::Bytes => Octets::new(value as u64).write(),
        Metric::Completed | Metric::Intact if value >= 1.0 => "yes".into(),
        Metric::Completed | Metric::Intact if value <= 0.0 => "no".into(),
        Metric::Completed | Metric::Intact => format!("in {:.0} % of the runs", value * 100.0),
        Metric::Lost => format!("{value}"),
        Metric::WireBytesPerDeliveredByte | Metric::RepairShare => format!("{value:.3}"),
    }
}

/// A rate for people: three digits at least.
pub fn rate(bps: f64) -> String {
    let digits = |value: f64| match value {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    match bps {
        b if b >= 1e9 => format!("{:.2} Gbit/s", b / 1e9),
        b if b >= 1e6 => format!("{:.3} Mbit/s", b / 1e6),
        b if b >= 1e3 => format!("{:.*} kbit/s", digits(b / 1e3), b / 1e3),
        b => format!("{:.*} bit/s", digits(b), b),
    }
}

struct Judge<'a> {
    scenario: &'a Scenario,
    stacks: &'a [StackResult],
    omitted: &'a [Omitted],
    check: &'a Check,
}

impl Judge<'_> {
    fn result(&self, stack: Stack) -> Option<&StackResult> {
        self.stacks.iter().find(|s| s.stack == stack.word())
    }
    /// The mean over the seeds; `None` if any seed lacks the figure.
    fn mean(&self, stack: &StackResult, flow: &str, metric: Metric) -> Option<f64> {
        let of_flow = stack.flows.iter().filter(|f| f.flow == flow);
        let values: Option<Vec<f64>> = of_flow.map(|f| figure(metric, stack, f)).collect();
        mean_ci95(&values?).map(|(mean, _)| mean)
    }
    /// The goodput by which a rival counts: of the check's flow, or of the bulk flow an echo belongs to.
    fn goodput(&self, stack: &StackResult) -> Option<f64> {
        let flow = self.scenario.flow(&self.check.flow)?;
        let bulk = if flow.app.is_bulk() { flow } else { self.scenario.bulk_of(flow)? };
        self.mean(stack, &bulk.name, Metric::GoodputBps)
    }
    fn not_run(&self, stack: Stack) -> String {
        let omitted = self.omitted.iter().find(|o| o.stack == stack.word());
        format!("{stack} was not run: {}", omitted.map_or("it was not reached", |o| o.why.as_str()))
    }
    fn holds(&self, ours: f64, limit: f64) -> bool {
        match self.check.side {
            Side::AtLeast => ours >= limit,
            Side::AtMost => ours <= limit,
        }
    }

    fn verdict(&self) -> (Verdict, String) {
        let check = self.check;
        let Some(ours) = self.result(check.stack) else {
            return (Verdict::Inconclusive, self.not_run(check.stack));
        };
        if let Some(why) = &ours.inconclusive {
            return (Verdict::Inconclusive, format!("{}: {why}", check.stack));
        }
        let sign = if check.side == Side::AtLeast { ">=" } else { "<=" };
        let value = self.mean(ours, &check.flow, check.metric);
        let word = check.metric.word();
        let Some(value) = value else {
            return (
                Verdict::Fail,
                format!("{} has no {word} of {}: it did not finish or nothing arrived", check.stack, check.flow),
            );
        };
        let (shown, whose) = (show(check.metric, value), format!("{} {}", check.stack, check.flow));
        match &check.bound {
            Bound::Value(limit) => {
                let ok = self.holds(value, *limit);
                let not = if ok { "" } else { "not " };
                let why = match check.metric {
                    Metric::Completed | Metric::Intact => format!("{whose} {word}: {shown}"),
                    _ => format!("{whose} {word} {shown} is {not}{sign} {}", show(check.metric, *limit)),
                };
                (if ok { Verdict::Pass } else { Verdict::Fail }, why)
            }
            Bound::Than { stacks, times, if_goodput_at_least } => {
                let rivals: Vec<(Verdict, String)> =
                    stacks.iter().map(|s| self.against(*s, ours, value, *times, *if_goodput_at_least)).collect();
                let verdict = Verdict::total(rivals.iter().map(|(v, _)| *v));
                let whys: Vec<&str> = rivals.iter().map(|(_, w)| w.as_str()).collect();
                let why = format!("{whose} {word} {shown}: {}", whys.join("; "));
                // Every rival too slow to count: the condition holds for all that count.
                (if verdict == Verdict::Info { Verdict::Pass } else { verdict }, why)
            }
        }
    }

    /// The comparison with one rival; `Info` if its goodput is too small to count.
    fn against(
        &self,
        rival: Stack,
        ours: &StackResult,
        value: f64,
        times: f64,
        share: Option<f64>,
    ) -> (Verdict, String) {
        let check = self.check;
        let Some(result) = self.result(rival) else {
            return (Verdict::Inconclusive, self.not_run(rival));
        };
        if let Some(why) = &result.inconclusive {
            return (Verdict::Inconclusive, format!("{rival}: {why}"));
        }
        if let Some(share) = share {
            let needed = self.goodput(ours).unwrap_or(0.0) * share;
            let Some(theirs) = self.goodput(result).filter(|bps| *bps > 0.0) else {
                return (
                    Verdict::Inconclusive,
                    format!("{rival} delivered nothing, so there is nothing to compare with"),
                );
            };
            if theirs < needed {
                let got = show(Metric::GoodputBps, theirs);
                let why = format!("{rival} does not count ({got}, needs {})", show(Metric::GoodputBps, needed));
                return (Verdict::Info, why);
            }
        }
        let theirs = self.mean(result, &check.flow, check.metric);
        let Some(theirs) = theirs.filter(|theirs| check.metric != Metric::GoodputBps || *theirs > 0.0) else {
            let why = format!("{rival} has none, since it did not finish or nothing arrived: nothing to compare with");
            return (Verdict::Inconclusive, why);
        };
        let sign = if check.side == Side::AtLeast { ">=" } else { "<=" };
        let ok = self.holds(value, theirs * times);
        let not = if ok { "" } else { "not " };
        let factor = if times == 1.0 { String::new() } else { format!("{times} x ") };
        let why = format!("{not}{sign} {factor}{rival} {}", show(check.metric, theirs));
        (if ok { Verdict::Pass } else { Verdict::Fail }, why)
    }
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
