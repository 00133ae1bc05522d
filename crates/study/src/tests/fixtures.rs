//! What the studies' tests judge: documents of invented runs.

use crate::{Edition, StudyOptions};
use std::path::{Path, PathBuf};
use wavelane_base::Seed;
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

/// How a test runs a study: quick, one task after the other.
pub(crate) fn options(out: &Path) -> StudyOptions {
    StudyOptions {
        edition: Edition::Quick,
        seed: Seed(1),
        jobs: Some(1),
        out: out.to_owned(),
        parts: Vec::new(),
        draws: None,
        stacks: Vec::new(),
        reuse: Vec::new(),
        traces: [None, None],
        elsewhere: None,
        row: |_| (),
    }
}

/// An empty directory of one test, removed with it.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("wavelane-study-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a temporary directory");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
