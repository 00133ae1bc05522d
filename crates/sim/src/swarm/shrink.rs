//! Making a failing plan smaller: fewer gateways, cables, flows, faults and bytes, as long as it fails.

use super::Plan;
use crate::traffic::Work;
use wavelane_base::{Ratio, Span};
use wavelane_channel::{DirectionConfig, LossConfig, Reorder};

/// Plans tried at most.
const TRIES: usize = 300;

/// The smallest plan found that fails, and why it does.
pub(super) fn shrink<T>(plan: &Plan, why: &str, run: impl Fn(&Plan) -> Result<T, String>) -> (Plan, String) {
    let (mut best, mut why, mut tries) = (plan.clone(), why.to_owned(), 0);
    'again: loop {
        for smaller in smaller(&best) {
            if tries == TRIES {
                return (best, why);
            }
            tries += 1;
            if let Err(other) = run(&smaller) {
                best = smaller;
                why = other;
                continue 'again;
            }
        }
        return (best, why);
    }
}

/// Plans that lack one thing, those that lack most first.
fn smaller(plan: &Plan) -> Vec<Plan> {
    let mut all = Vec::new();
    let mut with = |change: &dyn Fn(&mut Plan)| {
        let mut other = plan.clone();
        change(&mut other);
        if other != *plan {
            all.push(other);
        }
    };
    (0..plan.mesh.nodes).rev().for_each(|node| with(&|plan| drop_node(plan, node)));
    if plan.flows.len() > 1 {
        (0..plan.flows.len()).for_each(|flow| with(&|plan| _ = plan.flows.remove(flow)));
    }
    with(&|plan| plan.liar = None);
    (0..plan.crashes.len()).for_each(|crash| with(&|plan| _ = plan.crashes.remove(crash)));
    (0..plan.mesh.links.len()).for_each(|link| with(&|plan| _ = plan.mesh.links.remove(link)));
    for link in 0..plan.mesh.links.len() {
        with(&|plan| plan.mesh.links[link].config.forward.outages.clear());
        with(&|plan| plan.mesh.links[link].config.reverse.outages.clear());
    }
    with(&|plan| plan.mesh.links.iter_mut().for_each(|link| calm(&mut link.config.forward)));
    with(&|plan| plan.mesh.links.iter_mut().for_each(|link| calm(&mut link.config.reverse)));
    for flow in 0..plan.flows.len() {
        with(&|plan| plan.flows[flow].pause = None);
        with(&|plan| halve(&mut plan.flows[flow].work));
    }
    all
}

/// A gateway at which no flow begins or ends goes; later ones move up.
fn drop_node(plan: &mut Plan, node: usize) {
    if plan.mesh.nodes == 2 || plan.flows.iter().any(|flow| flow.from == node || flow.to == node) {
        return;
    }
    let moved = |number: usize| number - usize::from(number > node);
    plan.mesh.nodes -= 1;
    plan.mesh.links.retain(|link| !link.between.contains(&node));
    plan.mesh.links.iter_mut().for_each(|link| link.between = link.between.map(moved));
    plan.crashes.retain(|crash| crash.node != node);
    plan.liar = plan.liar.filter(|(liar, _)| *liar != node).map(|(liar, lie)| (moved(liar), lie));
    plan.crashes.iter_mut().for_each(|crash| crash.node = moved(crash.node));
    for flow in &mut plan.flows {
        flow.from = moved(flow.from);
        flow.to = moved(flow.to);
    }
}

fn calm(config: &mut DirectionConfig) {
    config.loss = LossConfig::None;
    config.duplicate = Ratio::ZERO;
    config.corrupt = Ratio::ZERO;
    config.jitter = Span::ZERO;
    config.reorder = Reorder::default();
}

fn halve(work: &mut Work) {
    if let Work::Download(Some(size)) | Work::Upload(Some(size)) = work {
        *size = size.div_ceil(2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stand-in for a defect: it needs one crash and a large upload.
    fn fails(plan: &Plan) -> Result<(), String> {
        let large = |work| matches!(work, Work::Upload(Some(size)) if size > 1_000);
        let wrong = !plan.crashes.is_empty() && plan.flows.iter().any(|flow| large(flow.work));
        if wrong { Err("wrong".into()) } else { Ok(()) }
    }

    #[test]
    fn a_failing_plan_loses_all_that_does_not_matter() {
        let plan = (1..200).map(Plan::draw).find(|plan| plan.mesh.nodes > 6 && fails(plan).is_err());
        let plan = plan.expect("one of 200 plans fails");
        let (smallest, why) = shrink(&plan, "wrong", fails);
        assert_eq!(why, "wrong");
        assert_eq!((smallest.flows.len(), smallest.crashes.len()), (1, 1));
        assert!(smallest.mesh.nodes <= 3 && smallest.mesh.links.is_empty());
        assert!(matches!(smallest.flows[0].work, Work::Upload(Some(1_001..=2_000))));
        assert!(smallest.flows[0].pause.is_none());
    }
}
