//! A file's text, and how it becomes a [`Config`].

use super::addresses::{prefixes, socket_address};
use super::tables::{EdgeTable, File, ForwardTable, RoutingWord, TunTable};
use super::text::Document;
use super::{Config, ConfigError, Forward, Intercept, Peer, SerialIp, Surroundings, Tun, TunAddress, value};
use crate::keys;
use std::path::Path;
use wavelane_base::IpPrefix;
use wavelane_gateway as gateway;
use wavelane_host::routes;
use wavelane_settings::{GATEWAY, GatewayKnobs, LANE, PEER};

impl Config {
    /// Reads a text; `place` names it in messages, `folder` is where relative key paths count from.
    pub(crate) fn read(text: &str, place: &str, folder: &Path, around: &Surroundings) -> Result<Self, ConfigError> {
        let mut document = Document::parse(text, place)?;
        let knobs = document.take("gateway", &GATEWAY)?.pop().unwrap_or_default();
        let mut of_lanes = document.take("peer.lane", &LANE)?.into_iter();
        let of_peers = document.take("peer", &PEER)?;
        let file: File = document.rest()?;
        let listen = socket_address("gateway.listen", &file.gateway.listen)?;
        let g = file.gateway;
        let shared = file.peer.iter().filter_map(|peer| peer.preshared_key.as_ref());
        let secrets = shared.chain(file.serial.iter().filter_map(|serial| serial.secret_file.as_ref()));
        let reads = [&g.key].into_iter().chain(secrets).chain(&g.hook).map(|file| folder.join(file));
        let reads = [place.into()].into_iter().chain(reads).collect();
        let mut peers = Vec::new();
        for (table, knobs) in file.peer.into_iter().zip(of_peers) {
            let of_lanes = of_lanes.by_ref().take(table.lane.len()).collect();
            peers.push(Peer::from_table(table, (knobs, of_lanes), (folder, around), listen, text)?);
        }
        let forwards = file.forward.into_iter().map(|f| forward(f, &peers)).collect::<Result<_, _>>()?;
        let (pool, flows_max) = (around.memory)();
        let (pool, flows_max) = (knobs.pool.or(Some(pool)), knobs.flows_max.or(Some(flows_max)));
        let knobs = GatewayKnobs { pool, flows_max, ..knobs };
        let metrics = g.metrics.as_deref().map(|at| socket_address("gateway.metrics", at)).transpose()?;
        if g.control.as_ref().is_some_and(|path| path.as_os_str().is_empty()) {
            return Err(value("gateway.control", "is empty: name a path, or leave it out for the usual place"));
        }
        let config = Self {
            private_key: around.key(&folder.join(&g.key))?,
            reads,
            state: g.state.map_or_else(|| (around.state)(&g.name, &folder.join(&g.key)), |s| folder.join(s)),
            listen,
            control: folder.join(g.control.unwrap_or_else(|| (around.control)(&g.name))),
            metrics,
            hook: g.hook.map(|program| folder.join(program)),
            name: g.name,
            on_failure: g.on_failure,
            source: g.source,
            attached: g.attached,
            knobs,
            serves: g.serves.map(|texts| prefixes("gateway.serves", &texts)).transpose()?,
            routing_table: routing_table(g.routing, g.routing_table)?,
            peers,
            intercept: file.intercept.map(|i| Intercept { interfaces: i.interfaces, local: i.local, proxy: None }),
            tun: file.tun.map(tun).transpose()?,
            forwards,
            edges: file.edge.into_iter().map(edge).collect::<Result<_, _>>()?,
            serial: file.serial.map(|table| SerialIp::from_table(table, folder, around)).transpose()?,
        };
        config.check(around)?;
        Ok(config)
    }
}

fn routing_table(routing: RoutingWord, table: Option<u32>) -> Result<Option<u32>, ConfigError> {
    match (routing, table) {
        (RoutingWord::Peers, None) => Ok(None),
        (RoutingWord::Peers, Some(_)) => {
            Err(value("gateway.routing_table", "counts only with gateway.routing = \"kernel\": add that, or remove it"))
        }
        (RoutingWord::Kernel, Some(0)) => Err(value("gateway.routing_table", "0 is no table: the main one is 254")),
        (RoutingWord::Kernel, table) => Ok(Some(table.unwrap_or(routes::TABLE_MAIN))),
    }
}

fn edge(t: EdgeTable) -> Result<gateway::EdgeConfig, ConfigError> {
    let key = |field: &str| format!("edge '{}': {field}", t.name);
    let public_key = keys::key_from_base64(&t.public_key).ok_or_else(|| {
        value(key("public_key"), "is not a key (44 characters of base64); `wavelane keygen` at that gateway prints it")
    })?;
    let routes = prefixes(&key("routes"), &t.routes)?;
    Ok(gateway::EdgeConfig { name: t.name, public_key, routes })
}

fn tun(t: TunTable) -> Result<Tun, ConfigError> {
    let address = |text: &String| -> Result<TunAddress, ConfigError> {
        let wrong =
            |_| value("tun.addresses", format!("'{text}' is not an address such as 10.9.0.1/24 or fd00:9::1/64"));
        let IpPrefix { address, bits } = text.parse::<IpPrefix>().map_err(wrong)?;
        Ok(TunAddress { address, bits })
    };
    let addresses = t.addresses.iter().map(address).collect::<Result<_, _>>()?;
    Ok(Tun { name: t.name, addresses, mtu: t.mtu, offload: t.offload, masquerade: t.masquerade })
}

fn forward(f: ForwardTable, peers: &[Peer]) -> Result<Forward, ConfigError> {
    let names = || peers.iter().map(|p| p.name.as_str()).collect::<Vec<_>>().join(", ");
    let via = peers
        .iter()
        .position(|p| p.name == f.via)
        .ok_or_else(|| value("forward.via", format!("no peer is called '{}'; there is {}", f.via, names())))?;
    Ok(Forward { listen: socket_address("forward.listen", &f.listen)?, to: socket_address("forward.to", &f.to)?, via })
}
