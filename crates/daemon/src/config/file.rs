//! A file's text, and how it becomes a [`Config`].

use super::addresses::{prefixes, socket_address};
use super::text::with_root;
use super::{Config, ConfigError, Forward, Intercept, Peer, SerialIp, Surroundings, Tun, TunAddress, value};
use crate::keys;
use std::path::Path;
use wavelane_base::IpPrefix;
use wavelane_gateway as gateway;
use wavelane_host::routes;
use wavelane_settings::{
    EDGE, EdgeTable, FORWARD, File, FileError, ForwardTable, GATEWAY, GATEWAY_TABLE, GatewayKnobs, GatewayTable,
    INTERCEPT, InterceptTable, LANE, LaneTable, PEER, PeerTable, RoutingWord, SERIAL, SerialTable, TUN, Table,
    TunTable,
};

/// A packet of this size fits one datagram of a lane on a path of 1500 bytes.
const TUN_MTU_DEFAULT: u16 = 1_400;
/// What a file may have.
const TABLES: [&str; 7] = ["gateway", "peer", "intercept", "tun", "forward", "edge", "serial"];

/// A gateway's file.
struct Tables {
    gateway: GatewayTable,
    knobs: GatewayKnobs,
    /// With their lanes, and these with their lines.
    peers: Vec<(PeerTable, Vec<(usize, LaneTable)>)>,
    intercept: Option<InterceptTable>,
    tun: Option<TunTable>,
    forwards: Vec<ForwardTable>,
    edges: Vec<EdgeTable>,
    serial: Option<SerialTable>,
}

impl Tables {
    fn read(root: &Table<'_>) -> Result<Self, FileError> {
        root.only(&TABLES)?;
        let gateway = root.need("gateway", "{ name = \"ship\", key = \"ship.key\" }")?.titled()?;
        let knobs = GATEWAY.keys(File::Daemon);
        let knobs: Vec<&str> = knobs.iter().map(AsRef::as_ref).collect();
        let lane = |t: &Table<'_>| Ok((t.line(), LANE.whole(File::Daemon, t, &[])?));
        let peer = |t: &Table<'_>| {
            let lanes = t.parts("lane")?.iter().map(lane).collect::<Result<_, FileError>>()?;
            Ok((PEER.whole(File::Daemon, t, &["lane"])?, lanes))
        };
        Ok(Self {
            knobs: GATEWAY.read(File::Daemon, &gateway)?,
            gateway: GATEWAY_TABLE.whole(File::Daemon, &gateway, &knobs)?,
            peers: root.parts("peer")?.iter().map(peer).collect::<Result<_, FileError>>()?,
            intercept: root.part("intercept", &INTERCEPT)?,
            tun: root.part("tun", &TUN)?,
            forwards: FORWARD.each(root, "forward")?,
            edges: EDGE.each(root, "edge")?,
            serial: root.part("serial", &SERIAL)?,
        })
    }
}

impl Config {
    /// Reads a text; `place` names it in messages, `folder` is where relative key paths count from.
    pub(crate) fn read(text: &str, place: &str, folder: &Path, around: &Surroundings) -> Result<Self, ConfigError> {
        let Tables { gateway: g, knobs, peers, intercept, tun, forwards, edges, serial } =
            with_root(text, place, Tables::read)?;
        let listen = socket_address("gateway.listen", g.listen.as_deref().unwrap_or("0.0.0.0:4780"))?;
        let key = g.key.unwrap_or_default();
        let shared = peers.iter().filter_map(|(peer, _)| peer.preshared_key.as_ref());
        let secrets = shared.chain(serial.iter().filter_map(|serial| serial.secret_file.as_ref()));
        let reads = [&key].into_iter().chain(secrets).chain(&g.hook).map(|file| folder.join(file));
        let reads = [place.into()].into_iter().chain(reads).collect();
        let peer = |(table, lanes): (PeerTable, Vec<_>)| Peer::from_table(table, &lanes, (folder, around), listen);
        let peers = peers.into_iter().map(peer).collect::<Result<Vec<_>, _>>()?;
        let forwards = forwards.iter().map(|f| forward(f, &peers)).collect::<Result<_, _>>()?;
        let (pool, flows_max) = (around.memory)();
        let (pool, flows_max) = (knobs.pool.or(Some(pool)), knobs.flows_max.or(Some(flows_max)));
        let knobs = GatewayKnobs { pool, flows_max, ..knobs };
        let metrics = g.metrics.as_deref().map(|at| socket_address("gateway.metrics", at)).transpose()?;
        if g.control.as_deref() == Some("") {
            return Err(value("gateway.control", "is empty: name a path, or leave it out for the usual place"));
        }
        let name = g.name.unwrap_or_default();
        let config = Self {
            private_key: around.key(&folder.join(&key))?,
            reads,
            state: g.state.map_or_else(|| (around.state)(&name, &folder.join(&key)), |s| folder.join(s)),
            listen,
            control: g.control.map_or_else(|| folder.join((around.control)(&name)), |path| folder.join(path)),
            metrics,
            hook: g.hook.map(|program| folder.join(program)),
            log: g.log.unwrap_or_default(),
            name,
            on_failure: g.on_failure.unwrap_or_default(),
            source: g.source.unwrap_or_default(),
            attached: g.attached.unwrap_or_default(),
            knobs,
            serves: g.serves.map(|texts| prefixes("gateway.serves", &texts)).transpose()?,
            routing_table: routing_table(g.routing.unwrap_or_default(), g.routing_table)?,
            peers,
            intercept: intercept.map(|i| Intercept {
                interfaces: i.interfaces.unwrap_or_default(),
                local: i.local,
                proxy: None,
            }),
            tun: tun.map(self::tun).transpose()?,
            forwards,
            edges: edges.into_iter().map(edge).collect::<Result<_, _>>()?,
            serial: serial.map(|table| SerialIp::from_table(table, folder, around)).transpose()?,
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
        (RoutingWord::Kernel, table) => Ok(Some(table.unwrap_or(routes::TABLE_MAIN))),
    }
}

fn edge(t: EdgeTable) -> Result<gateway::EdgeConfig, ConfigError> {
    let name = t.name.unwrap_or_default();
    let key = |field: &str| format!("edge '{name}': {field}");
    let public_key = keys::key_from_base64(&t.public_key.unwrap_or_default()).ok_or_else(|| {
        value(key("public_key"), "is not a key (44 characters of base64); `wavelane keygen` at that gateway prints it")
    })?;
    let routes = prefixes(&key("routes"), &t.routes.unwrap_or_default())?;
    Ok(gateway::EdgeConfig { name, public_key, routes })
}

fn tun(t: TunTable) -> Result<Tun, ConfigError> {
    let address = |text: &String| -> Result<TunAddress, ConfigError> {
        let wrong =
            |_| value("tun.addresses", format!("'{text}' is not an address such as 10.9.0.1/24 or fd00:9::1/64"));
        let IpPrefix { address, bits } = text.parse::<IpPrefix>().map_err(wrong)?;
        Ok(TunAddress { address, bits })
    };
    let addresses = t.addresses.iter().flatten().map(address).collect::<Result<_, _>>()?;
    Ok(Tun {
        name: t.name.unwrap_or_else(|| "wavelane0".into()),
        addresses,
        mtu: t.mtu.unwrap_or(TUN_MTU_DEFAULT),
        offload: t.offload.unwrap_or(true),
        masquerade: t.masquerade,
    })
}

fn forward(f: &ForwardTable, peers: &[Peer]) -> Result<Forward, ConfigError> {
    let [listen, to, wanted] = [&f.listen, &f.to, &f.via].map(|text| text.as_deref().unwrap_or_default());
    let names = || peers.iter().map(|p| p.name.as_str()).collect::<Vec<_>>().join(", ");
    let via = peers
        .iter()
        .position(|p| p.name == wanted)
        .ok_or_else(|| value("forward.via", format!("no peer is called '{wanted}'; there is {}", names())))?;
    Ok(Forward { listen: socket_address("forward.listen", listen)?, to: socket_address("forward.to", to)?, via })
}
