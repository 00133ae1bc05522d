//! The flows' clients, each a thread in the namespace of its node.

use super::Run;
use crate::bulk::{self, ENDLESS};
use crate::content::Content;
use crate::{LabError, echo, fetch, quic};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use wavelane_base::{Instant, Octets};
use wavelane_scenario::{App, FlowRaw};

/// A flow on its way.
pub(super) struct Task {
    pub(super) flow: usize,
    pub(super) progress: Arc<AtomicU64>,
    pub(super) thread: JoinHandle<Result<(FlowRaw, Option<String>), LabError>>,
}

impl Run<'_> {
    /// Starts the thread of one flow.
    pub(super) fn launch(&self, i: usize, epoch: Instant) -> Result<Task, LabError> {
        let flow = &self.scenario.flows[i];
        let progress = Arc::new(AtomicU64::new(0));
        let place = self.place(&flow.from)?;
        let (from, control) = (Arc::clone(&self.world.nodes[place]), self.controls[place].to_owned());
        let (start, stop) = (epoch + flow.start, epoch + self.scenario.stop_of(flow));
        let (name, server) = (flow.name.clone(), self.entrance_of(i)?);
        let (cancel, over) = (Arc::clone(&self.cancel), Arc::clone(&self.over[i]));
        type Work = Box<dyn FnOnce() -> Result<(FlowRaw, Option<String>), LabError> + Send>;
        let work: Work = match flow.app.clone() {
            App::Echo { every, size, during } => {
                let companion = during.and_then(|name| self.scenario.flows.iter().position(|f| f.name == name));
                let over = companion.map_or_else(Arc::default, |c| Arc::clone(&self.over[c]));
                let size = usize::try_from(size.get()).expect("reviewed: at most PROBE_MAX");
                let errand = echo::Errand { name, epoch, start, stop, every, size, server, control, over, cancel };
                Box::new(move || echo::run(&errand))
            }
            App::Cbr { .. } | App::Saturate { .. } | App::Window { .. } | App::Ping { .. } => {
                return Err(LabError::Topology(format!("flow '{name}': the lab has no program for it: use --on sim")));
            }
            App::Fetch { every, size } => {
                let size = size.get();
                let errand = fetch::Errand { name, epoch, start, stop, every, size, server, control, cancel };
                Box::new(move || fetch::run(errand))
            }
            App::Quic { size } => {
                let size = size.map(Octets::get);
                let digest = self.digests.get(&name).cloned().unwrap_or_default();
                let certificate = self.quics.get(&name).map(quic::Server::certificate);
                let certificate = certificate.expect("every QUIC flow's server was started");
                let (from, progress) = (Arc::clone(&from), Arc::clone(&progress));
                let errand = bulk::Errand { name, epoch, start, stop, size, from, server, cancel, progress };
                Box::new(move || quic::run(&errand, &control, certificate, &digest))
            }
            App::Download { size } | App::Upload { size } => {
                let size = size.map(Octets::get);
                let (digest, upload) = (self.digests.get(&name).cloned(), self.uploads.get(&name).cloned());
                let body = Content::new(self.seed, &name, size.unwrap_or(ENDLESS));
                let (from, progress) = (Arc::clone(&from), Arc::clone(&progress));
                let errand = bulk::Errand { name, epoch, start, stop, size, from, server, cancel, progress };
                Box::new(move || match (digest, upload) {
                    (_, Some(upload)) => bulk::upload(&errand, body, &upload),
                    (digest, None) => bulk::download(&errand, &digest.unwrap_or_default()),
                })
            }
        };
        let title = format!("flow-{}", flow.name);
        // Started inside the client's namespace, where its own sockets must be; it stays there.
        let thread = from.run(move || {
            std::thread::Builder::new().name(title).spawn(move || {
                let outcome = work();
                over.store(true, Ordering::Release);
                outcome
            })
        })?;
        let thread = thread.map_err(LabError::io("cannot start a thread for a flow; raise the process limit"))?;
        Ok(Task { flow: i, progress, thread })
    }
}
