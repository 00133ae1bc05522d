//! The flows' clients, each a thread in the namespace of its node.

use super::Run;
use crate::bulk::{self, ENDLESS};
use crate::content::Content;
use crate::echo::Pace;
use crate::spurts::{self, Pace as Talking, Talk};
use crate::workload::Workload;
use crate::{LabError, echo, fetch, ping, quic, web};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use wavelane_base::{Chance, Instant, Octets, Seed, Span};
use wavelane_run::FlowRaw;
use wavelane_scenario::{App, Voice};
use wavelane_wire::datagram::UDP4_OVERHEAD;

/// A running flow.
pub(super) struct Task {
    pub(super) flow: usize,
    pub(super) progress: Arc<AtomicU64>,
    pub(super) thread: JoinHandle<Result<(FlowRaw, Option<String>), LabError>>,
}

impl Run<'_> {
    /// The random stream that the simulator uses for the flow's random times.
    fn dice(&self, flow: usize, what: &str) -> Chance {
        Seed(self.seed.chance(&format!("flow {flow} / content")).next_u64()).chance(what)
    }
    /// How far apart datagrams of that size are at the rate of a station's radio, which its medium access never reaches.
    fn never_idle(&self, station: &str, size: Octets) -> Span {
        let cells = self.scenario.channels.iter().filter(|channel| channel.between.iter().any(|name| name == station));
        let rate = cells.filter_map(|channel| channel.cell()).map(|cell| cell.rate).max();
        rate.map_or(Span::from_millis(1), |rate| rate.time_for(Octets::new(size.get() + UDP4_OVERHEAD as u64)))
    }
    /// Starts the thread of one flow.
    pub(super) fn launch(&self, i: usize, epoch: Instant) -> Result<Task, LabError> {
        let flow = &self.scenario.flows[i];
        let progress = Arc::new(AtomicU64::new(0));
        let place = self.place(&flow.from)?;
        let from = Arc::clone(&self.world.nodes[place]);
        let over = Arc::clone(&self.over[i]);
        let workload = Workload {
            name: flow.name.clone(),
            epoch,
            start: epoch + flow.start,
            stop: epoch + self.scenario.stop_of(flow),
            from: Arc::clone(&from),
            server: self.entrance_of(i)?,
            control: self.control_of(place),
            cancel: Arc::clone(&self.cancel),
            progress: Arc::clone(&progress),
        };
        type Work = Box<dyn FnOnce() -> Result<(FlowRaw, Option<String>), LabError> + Send>;
        let work: Work = match flow.app.clone() {
            App::Echo { every, size, during } => {
                let companion = during.and_then(|name| self.scenario.flows.iter().position(|f| f.name == name));
                let over = companion.map_or_else(Arc::default, |c| Arc::clone(&self.over[c]));
                let size = usize::try_from(size.get()).expect("reviewed: at most PROBE_MAX");
                Box::new(move || echo::run(&workload, "echo", Pace::Every(every), size, &over))
            }
            App::Ping { every, size } => {
                let size = usize::try_from(size.get()).expect("a datagram fits an IP packet");
                let id = u16::try_from(i).expect("FLOWS_MAX is 256");
                Box::new(move || ping::run(&workload, every, size, id))
            }
            App::Telnet { every, size } => {
                let pace = Pace::Random(self.dice(i, "questions"), every);
                let size = usize::try_from(size.get()).expect("reviewed: at most PROBE_MAX");
                Box::new(move || echo::run(&workload, "telnet", pace, size, &AtomicBool::new(false)))
            }
            App::Web(web) => {
                let dice = self.seed.chance(&format!("flow {i} / pages"));
                Box::new(move || web::run(workload, (&*web).into(), dice))
            }
            App::Voice(Voice { spurts: of, .. }) | App::OnOff(of) => {
                let heard = self.hearings.get(&flow.name).cloned().unwrap_or_default();
                let (timed, app) = (matches!(flow.app, App::Voice(_)), flow.app.word());
                let size = usize::try_from(of.size.get()).expect("a datagram fits an IP packet");
                let dice = self.dice(i, "spurts");
                let talk = Talk { pace: Talking::Spurts(of.every(), (of.on, of.off), dice), size, timed };
                Box::new(move || spurts::run(&workload, app, talk, &heard))
            }
            App::Cbr { size, .. } | App::Saturate { size } | App::Window { size, .. } => {
                let heard = self.hearings.get(&flow.name).cloned().unwrap_or_default();
                let pace = match flow.app {
                    App::Cbr { every, .. } => Talking::Every(every),
                    App::Window { packets, .. } => Talking::Window(packets as usize),
                    _ => Talking::Every(self.never_idle(&flow.from, size)),
                };
                let (size, app) = (usize::try_from(size.get()).expect("a datagram fits an IP packet"), flow.app.word());
                Box::new(move || spurts::run(&workload, app, Talk { pace, size, timed: false }, &heard))
            }
            App::Fetch { every, size } => Box::new(move || fetch::run(workload, every, size.get())),
            App::Quic { size } => {
                let digest = self.digests.get(&flow.name).cloned().unwrap_or_default();
                let certificate = self.quics.get(&flow.name).map(quic::Server::certificate);
                let certificate = certificate.expect("every QUIC flow's server was started");
                Box::new(move || quic::run(&workload, size.map(Octets::get), certificate, &digest))
            }
            App::Download { size } => {
                let digest = self.digests.get(&flow.name).cloned().unwrap_or_default();
                Box::new(move || bulk::download(&workload, size.map(Octets::get), &digest))
            }
            App::Upload { size } => {
                let size = size.map(Octets::get);
                let body = Content::new(self.seed, &flow.name, size.unwrap_or(ENDLESS));
                let upload = self.uploads.get(&flow.name).cloned().expect("every upload's page was made");
                Box::new(move || bulk::upload(&workload, size, body, &upload))
            }
        };
        let title = format!("flow-{}", flow.name);
        // Started inside the client's namespace, where its sockets must be; it stays there.
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
