//! What the studies' tests judge: documents of runs that never were.

use wavelane_run::{Omitted, RunDocument, StackResult, Verdict};

/// One lab run of `stacks`, of which some were `omitted`.
pub(crate) fn document(stacks: Vec<StackResult>, omitted: Vec<Omitted>) -> RunDocument {
    RunDocument {
        format: String::new(),
        scenario: String::new(),
        title: String::new(),
        backend: "lab".into(),
        seed: 1,
        repeat: 1,
        verdict: Verdict::Pass,
        omitted,
        clauses: vec![],
        stacks,
        checks: vec![],
        rerun: String::new(),
        record: String::new(),
    }
}
