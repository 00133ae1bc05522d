//! Monitors the running flows: faults, progress, the kernel's congestion control, and when all have ended.

use super::Run;
use super::launch::Task;
use crate::tools::{self, INSTALL_IP};
use crate::{LabError, sockets};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use wavelane_base::{Instant, Span};
use wavelane_host::realtime;
use wavelane_run::{Progress, RunContext, WayRaw};
use wavelane_scenario::{App, Flow};

/// Polling interval of the running flows.
const GLANCE: Span = Span::from_millis(100);
/// Time after the run's duration within which its flows may finish: an echo waits 5 s, curl 2 s.
const WIND_UP: Span = Span::from_secs(8);
/// Number of attempts to ask the kernel which congestion control the connections use, until it lists any.
const LOOKS: u64 = 10;
/// Interval between two of these attempts.
const LOOK_EVERY: Span = Span::from_millis(300);

impl Run<'_> {
    /// Monitors the running flows until all have ended. Returns the traffic offered to the bad channels until the last bulk flow ended.
    pub(super) fn watch(
        &mut self,
        tasks: &[Task],
        epoch: Instant,
        context: &mut RunContext<'_>,
    ) -> Result<Vec<WayRaw>, LabError> {
        let deadline = epoch + self.scenario.duration + WIND_UP;
        let mut ways = None;
        let mut looks = 0;
        loop {
            let now = realtime::now();
            if context.is_cancelled() {
                return Err(LabError::Cancelled);
            }
            if let Some(fault) = self.world.fault() {
                return Err(LabError::Failed { program: "the lab".into(), said: fault });
            }
            self.world.lines.check()?;
            self.mobiles.check()?;
            if let Some(gateways) = &mut self.gateways {
                gateways.check()?;
            }
            if let Some(proxies) = &mut self.proxies {
                proxies.check()?;
            }
            if let Some(peers) = &mut self.peers {
                peers.check()?;
            }
            if looks < LOOKS && now >= epoch + LOOK_EVERY.times(looks + 1) {
                looks = if self.look_at_sockets()? { LOOKS } else { looks + 1 };
            }
            let bulk = |t: &&Task| self.scenario.flows[t.flow].app.is_bulk();
            if ways.is_none()
                && tasks.iter().any(|t| bulk(&t))
                && tasks.iter().filter(bulk).all(|t| t.thread.is_finished())
            {
                ways = Some(self.world.ways(self.scenario));
            }
            (context.progress)(Progress {
                stack: self.stack,
                seed: self.seed,
                at: now.since(epoch),
                of: self.scenario.duration,
                note: tasks
                    .iter()
                    .filter_map(|t| words(&self.scenario.flows[t.flow], t))
                    .collect::<Vec<_>>()
                    .join(", "),
            });
            if tasks.iter().all(|t| t.thread.is_finished()) {
                return Ok(ways.unwrap_or_else(|| self.world.ways(self.scenario)));
            }
            if now > deadline {
                return Err(LabError::Late(format!("the flows did not end within {WIND_UP} of the run's duration")));
            }
            sockets::rest_until(now + GLANCE, || false);
        }
    }

    /// Asks the kernel which congestion control the endpoints' connections really use; false if there are none yet.
    fn look_at_sockets(&mut self) -> Result<bool, LabError> {
        if tools::find("ss").is_none() {
            self.notes.push("ss is missing, so congestion control was verified on the echo sockets only".into());
            return Ok(true);
        }
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        let mut other = None;
        for ((node, ns), wanted) in self.scenario.nodes.iter().zip(&self.world.nodes).zip(&self.controls) {
            if self.scenario.flows.iter().all(|f| f.from != node.name && f.to != node.name) {
                continue;
            }
            let mut ss = tools::command("ss");
            ss.args(["-H", "-t", "-i", "-n", "-O", "state", "established"]);
            let printed = tools::output(ns, ss, INSTALL_IP)?.stdout;
            for line in String::from_utf8_lossy(&printed).lines() {
                let known = ["reno", "cubic", "bbr"];
                if let Some(word) = line.split_whitespace().find(|w| known.contains(w)) {
                    *seen.entry(word.to_owned()).or_default() += 1;
                    if word != *wanted {
                        other = Some((word.to_owned(), *wanted));
                    }
                }
            }
        }
        if seen.is_empty() {
            return Ok(false);
        }
        let words: Vec<String> = seen.iter().map(|(name, n)| format!("{name} on {n}")).collect();
        self.notes.push(format!("endpoints' connections as the kernel shows them: {}", words.join(", ")));
        match other {
            None => Ok(true),
            Some((other, wanted)) => Err(LabError::Failed {
                program: "pinning the congestion control".into(),
                said: format!("a connection uses {other} where {wanted} was asked for"),
            }),
        }
    }
}

/// Progress of a running flow, for display.
fn words(flow: &Flow, task: &Task) -> Option<String> {
    let (App::Download { size } | App::Upload { size } | App::Quic { size }) = &flow.app else { return None };
    let so_far = task.progress.load(Ordering::Relaxed) as f64 / 1e6;
    let of = size.map(|s| format!(" of {:.1} MB", s.get() as f64 / 1e6)).unwrap_or_default();
    Some(format!("{} {so_far:.1} MB{of}", flow.name))
}
