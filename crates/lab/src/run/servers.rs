//! The flows' servers and their addresses.

use super::Run;
use crate::bulk::ENDLESS;
use crate::content::Content;
use crate::http::{Http, Page, Upload};
use crate::peers::Peers;
use crate::{LabError, echo, fetch, quic, sockets, spurts};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use wavelane_base::Octets;
use wavelane_scenario::{App, Spurts, Voice};

/// Where the nodes' HTTP servers listen.
const HTTP_PORT: u16 = 8080;
/// Port of the first echo flow's server; each further one uses the next port.
const ECHO_PORT: u16 = 7000;

impl Run<'_> {
    pub(super) fn start_servers(&mut self) -> Result<(), LabError> {
        let mut pages: BTreeMap<usize, (SocketAddr, BTreeMap<String, Page>)> = BTreeMap::new();
        for (i, flow) in self.scenario.flows.iter().enumerate() {
            let (node, address) = (self.place(&flow.to)?, self.server_of(i)?);
            let control = &*self.control_of(node);
            let page = match &flow.app {
                App::Download { size } => {
                    let octets = size.map_or(ENDLESS, Octets::get);
                    let content = Content::new(self.seed, &flow.name, octets).stamped();
                    self.digests.insert(flow.name.clone(), content.digest());
                    Page::Download(std::sync::Mutex::new(Some(content)), octets)
                }
                App::Upload { .. } => {
                    let upload = Arc::new(Upload::default());
                    self.uploads.insert(flow.name.clone(), Arc::clone(&upload));
                    Page::Upload(upload)
                }
                App::Ping { .. } => continue,
                App::Quic { size } => {
                    let content = Content::new(self.seed, &flow.name, size.map_or(ENDLESS, Octets::get)).stamped();
                    self.digests.insert(flow.name.clone(), content.digest());
                    let ns = &self.world.nodes[node];
                    let server = quic::Server::start(ns, address, control, &flow.name, content)?;
                    self.quics.insert(flow.name.clone(), server);
                    continue;
                }
                App::Voice(Voice { spurts: Spurts { size, .. }, .. })
                | App::OnOff(Spurts { size, .. })
                | App::Cbr { size, .. }
                | App::Saturate { size }
                | App::Window { size, .. } => {
                    let size = usize::try_from(size.get()).expect("a datagram fits an IP packet");
                    let answers = matches!(flow.app, App::Window { .. });
                    let (worker, heard) = spurts::listener(&self.world.nodes[node], address, size, answers)?;
                    self.answerers.push(worker);
                    self.hearings.insert(flow.name.clone(), heard);
                    continue;
                }
                App::Echo { .. } | App::Telnet { .. } => {
                    self.answerers.push(echo::answerer(&self.world.nodes[node], address, control)?);
                    continue;
                }
                App::Fetch { .. } | App::Web(_) => {
                    self.answerers.push(fetch::answerer(&self.world.nodes[node], address, control)?);
                    continue;
                }
            };
            pages.entry(node).or_insert_with(|| (address, BTreeMap::new())).1.insert(flow.name.clone(), page);
        }
        for (node, (address, pages)) in pages {
            let epoch = Arc::clone(&self.epoch);
            let sender = (&*self.control_of(node), sockets::unsent(self.scenario));
            self.http.push(Http::start(&self.world.nodes[node], address, sender, pages, epoch)?);
        }
        Ok(())
    }

    /// Where a flow's server listens.
    pub(super) fn server_of(&self, flow: usize) -> Result<SocketAddr, LabError> {
        let to = &self.scenario.flows[flow].to;
        let ip = self.world.plan.address_of(self.place(to)?);
        let ip =
            ip.ok_or_else(|| LabError::Topology(format!("node '{to}' is joined to nothing: give it a channel")))?;
        let own = || ECHO_PORT + u16::try_from(flow).expect("FLOWS_MAX is 256");
        let port = match self.scenario.flows[flow].app {
            App::Download { .. } | App::Upload { .. } => HTTP_PORT,
            _ => own(),
        };
        Ok(sockets::at(ip, port))
    }

    /// Where a flow's client connects: its server, or a peer that forwards to it.
    pub(super) fn entrance_of(&self, flow: usize) -> Result<SocketAddr, LabError> {
        let server = self.server_of(flow)?;
        let by_peer = |peers: &Peers| peers.way_to(self.scenario, &self.scenario.flows[flow], server);
        Ok(self.peers.as_ref().map_or(server, by_peer))
    }

    pub(super) fn place(&self, name: &str) -> Result<usize, LabError> {
        let place = self.scenario.nodes.iter().position(|n| n.name == name);
        place
            .ok_or_else(|| LabError::Topology(format!("a flow names '{name}', which is no node: add it under [nodes]")))
    }
}
