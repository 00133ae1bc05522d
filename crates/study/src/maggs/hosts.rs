//! S0-E17: how asymmetric hosts are, by a capture of the shipped scenario and the rules of `wavelane trace --hosts`.

use crate::StudyError;
use crate::observe::{run_stack, unwritable};
use serde::{Deserialize, Serialize};
use std::path::Path;
use wavelane_probe::trace;
use wavelane_run::{CaptureExtent, RunContext, RunError, RunHooks, StackRaw};
use wavelane_scenario::{Scenario, Stack};

/// Homes and the campus; the mix of jobs is ours.
pub(super) const CAMPUS: &str = include_str!("../../../../scenarios/serial/campus.toml");
/// What is captured: the campus's end of the radio.
const POINT: (&str, &str) = ("campus", "air");

/// What a capture says of hosts.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(super) struct HostsSeen {
    pub(super) hosts: u64,
    /// Shares whose two directions differ more than threefold: of hosts, and of the octets that they sent or received.
    pub(super) asymmetric: f64,
    pub(super) octets: f64,
}

/// Runs it in the simulator with a capture, which is read and removed.
pub(super) fn observe(
    (scenario, stack): (&Scenario, Stack),
    out: &Path,
    hooks: &RunHooks<'_>,
) -> Result<(StackRaw, HostsSeen), StudyError> {
    let out = out.join("captured");
    let _ = std::fs::remove_dir_all(&out);
    std::fs::create_dir_all(out.join("pcap")).map_err(unwritable(&out))?;
    let (label, captures, cancelled) = (stack.word().to_owned(), CaptureExtent::Headers, hooks.cancelled);
    let mut context = RunContext { out: &out, label, captures, progress: &mut |_| {}, cancelled };
    let ran = run_stack(&mut wavelane_sim::SimBackend, (scenario, stack), &mut context);
    let seen = ran.and_then(|raw| {
        let path = context.pcap(POINT.0, POINT.1);
        let file = std::fs::File::open(&path).map_err(unwritable(&path))?;
        let read = trace::analyse(file, |_| true)
            .map_err(|why| RunError::Unwritable { path: path.clone(), why: why.to_string() })?;
        let hosts = read.hosts.list();
        let octets = |of: &trace::Host| (of.sent_bytes + of.received_bytes) as f64;
        let all: f64 = hosts.iter().map(octets).sum();
        let lopsided: f64 = hosts.iter().filter(|host| host.asymmetric()).map(octets).sum();
        let asymmetric = read.hosts.asymmetric_share().unwrap_or(0.0);
        Ok((raw, HostsSeen { hosts: hosts.len() as u64, asymmetric, octets: lopsided / all }))
    });
    std::fs::remove_dir_all(&out).map_err(unwritable(&out))?;
    seen
}
