//! What a proxy tells of itself.

use super::beside::Beside;
use super::sockets::{FAR, Sockets};
use super::userspace::Userspace;
use super::{Proxy, config};
use crate::config::prefix_text;
use crate::counters::Counters;
use crate::status::{Counter, age, counter};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use wavelane_door::{Moved, Tally};
use wavelane_host::tcp;
use wavelane_settings::{File, SIDE};

/// The document's format.
pub const FORMAT: &str = "wavelane-proxy-status/1";
/// Connections listed in a document, which must fit the buffer of the control socket: nobody waits for its reader.
const CONNECTIONS_SHOWN: usize = 200;
/// Connections that are shown to people.
const CONNECTIONS_PRINTED: usize = 20;

/// One half of a connection.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Half {
    /// `connecting`, `open`, `ended here` or `ended there` (one direction), `closing`, `last bytes`.
    pub state: String,
    /// Bytes read from its remote end.
    pub in_bytes: u64,
    /// Bytes written to it.
    pub out_bytes: u64,
    /// Smoothed RTT.
    pub rtt_ms: Option<f64>,
    /// Segments that were retransmitted.
    pub retransmits: Option<u32>,
    /// Congestion window, in segments.
    pub window_segments: Option<u32>,
}

/// One connection.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Connection {
    /// The client's address.
    pub source: String,
    /// The server's.
    pub target: String,
    /// Seconds since it began.
    pub age_s: f64,
    /// The half towards the client, once the server has answered.
    pub near: Option<Half>,
    /// The half towards the server.
    pub far: Option<Half>,
}

/// A side, as the file has it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Side {
    /// Its name.
    pub name: String,
    /// Of the remote ends; none stand for all.
    pub networks: Vec<String>,
    /// Its knobs as the file writes them; what is missing is the engine's.
    pub knobs: BTreeMap<String, String>,
}

impl Side {
    fn new(side: &config::Side) -> Self {
        let knobs = SIDE.turned(File::Daemon, &side.knobs).into_iter();
        Self {
            name: side.name.clone(),
            networks: side.networks.iter().map(prefix_text).collect(),
            knobs: knobs.map(|(key, value)| (key.into_owned(), value)).collect(),
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let networks = if self.networks.is_empty() { "everywhere".into() } else { self.networks.join(", ") };
        write!(f, "side '{}': {networks}", self.name)?;
        self.knobs.iter().try_for_each(|(key, value)| write!(f, "; {key} = {value}"))
    }
}

/// Who sends packets here within packets.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Tunnel {
    /// The other end.
    pub peer: String,
    /// Whose packets they are.
    pub networks: Vec<String>,
    /// Packets that came.
    pub in_packets: u64,
    /// Packets that went.
    pub out_packets: u64,
    /// The largest packet that it takes.
    pub mtu: u32,
}

impl fmt::Display for Tunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { peer, networks, in_packets, out_packets, mtu } = self;
        let networks = networks.join(", ");
        write!(f, "tunnel of {peer}: {networks}; {in_packets} packets in, {out_packets} out, of at most {mtu} B")
    }
}

/// A link on which this host claims others' addresses.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Claims {
    /// The interface.
    pub interface: String,
    /// Clients that are known and told.
    pub clients: usize,
    /// Routers that are.
    pub routers: usize,
    /// Routers that the file lists.
    pub routers_listed: usize,
}

impl fmt::Display for Claims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { interface, clients, routers, routers_listed } = self;
        write!(
            f,
            "on {interface} {clients} clients and {routers} of {routers_listed} routers are told that the others are here"
        )
    }
}

/// The whole document.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Report {
    /// Name and version of this form.
    #[cfg_attr(test, schemars(extend("const" = FORMAT)))]
    pub format: String,
    /// The proxy's name.
    pub name: String,
    /// Whose TCP both halves are: `kernel` or `userspace`.
    #[serde(default)]
    pub engine: String,
    /// How connections come to it, as the file writes it.
    #[serde(default)]
    pub placement: String,
    /// `split`, `mirror` or `snoop`.
    #[serde(default)]
    pub mode: String,
    /// The sides, in the order of the file.
    #[serde(default)]
    pub sides: Vec<Side>,
    /// The tunnels of placement `tunnel`.
    #[serde(default)]
    pub tunnels: Vec<Tunnel>,
    /// The links of placement `arp`.
    #[serde(default)]
    pub claims: Vec<Claims>,
    /// Seconds since it started.
    pub uptime_s: f64,
    /// Whether connections wait for their server's answer; without NFQUEUE they do not.
    pub honest: bool,
    /// Connections open now.
    pub connections: usize,
    /// The most (`proxy.connections_max`).
    pub connections_max: usize,
    /// Attempts whose server has not answered.
    pub pending: usize,
    /// In `userspace`, clients whose server has answered and who have not gone on yet.
    #[serde(default)]
    pub half_open: Option<usize>,
    /// Bytes that wait between the halves, in `userspace` in both of them too.
    pub waiting_bytes: u64,
    /// The most of them (`proxy.pool`).
    pub pool_bytes: u64,
    /// Those that moved most, at most 200.
    pub connection_list: Vec<Connection>,
    /// Why the last reload was refused; the configuration before it is in force.
    pub reload_refused: Option<String>,
    /// What on this host keeps traffic from the proxy.
    pub hindrances: Vec<String>,
    /// Everything counted.
    pub counters: Vec<Counter>,
}

/// The numbers that stand beside the largest, at most [`CONNECTIONS_SHOWN`].
pub(super) fn longest(mut all: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    all.sort_unstable_by(|a, b| b.cmp(a));
    all.truncate(CONNECTIONS_SHOWN);
    all
}

impl Half {
    pub(super) fn new(state: &str, moved: Moved, health: Option<tcp::Health>) -> Self {
        Self {
            state: state.into(),
            in_bytes: moved.from_socket,
            out_bytes: moved.to_socket,
            rtt_ms: health.map(|health| health.round_trip.as_secs_f64() * 1e3),
            retransmits: health.map(|health| health.retransmits),
            window_segments: health.map(|health| health.window),
        }
    }
}

/// Connections of which a half is not open yet, at most so many. Nothing has moved on them.
fn beginning(proxy: &Proxy<Sockets>, most: usize) -> Vec<Connection> {
    let mut all: BTreeMap<u64, Connection> = BTreeMap::new();
    for connection in proxy.body.door.connections().take(2 * most) {
        let (splice, own) = (&connection.splice, &connection.own);
        let half = Half::new(splice.state(), splice.moved, tcp::health(&own.kept.0));
        let entry = all.entry(splice.flow.0 | 1).or_insert_with(|| Connection {
            source: own.ends.0.to_string(),
            target: own.ends.1.to_string(),
            ..Connection::default()
        });
        entry.age_s = entry.age_s.max(proxy.now.since(splice.born).as_nanos() as f64 / 1e9);
        *if own.tag == FAR { &mut entry.far } else { &mut entry.near } = Some(half);
    }
    all.into_values().take(most).collect()
}

/// The document of a running proxy.
pub(super) fn of_sockets(proxy: &Proxy<Sockets>) -> String {
    let mut busiest: Vec<(u64, Connection)> = Vec::new();
    let mut tally = Tally::default();
    for account in proxy.body.movers.accounts() {
        busiest.extend(account.busiest);
        tally.moved.add(account.tally.moved);
        tally.closed += account.tally.closed;
        tally.reset += account.tally.reset;
    }
    busiest.sort_by_key(|(moved, _)| core::cmp::Reverse(*moved));
    busiest.truncate(CONNECTIONS_SHOWN);
    let mut connection_list: Vec<Connection> = busiest.into_iter().map(|(_, connection)| connection).collect();
    connection_list.extend(beginning(proxy, CONNECTIONS_SHOWN - connection_list.len()));
    let mut counters = proxy.counters.with(&proxy.body.door.counts);
    counters.add("connections_closed", tally.closed);
    counters.add("connections_reset", tally.reset);
    let now = Now {
        honest: proxy.kernel.holds_syns,
        connections: proxy.flows(),
        pending: proxy.body.door.pending(),
        half_open: None,
        waiting: proxy.body.movers.waiting(),
        moved: tally.moved,
    };
    document(proxy, &now, connection_list, &counters)
}

/// What an engine has now.
pub(super) struct Now {
    pub(super) honest: bool,
    pub(super) connections: usize,
    pub(super) pending: usize,
    pub(super) half_open: Option<usize>,
    pub(super) waiting: usize,
    pub(super) moved: Moved,
}

/// The document of a running proxy.
pub(super) fn document<B>(proxy: &Proxy<B>, now: &Now, list: Vec<Connection>, counters: &Counters) -> String {
    let Moved { from_socket, to_socket } = now.moved;
    let bytes = [("bytes_from_applications", from_socket), ("bytes_to_applications", to_socket)];
    let (tunnels, claims, beside) = proxy.beside.as_ref().map(Beside::told).unwrap_or_default();
    let counters = counters.iter().chain(bytes).chain(proxy.log.dropped()).chain(beside);
    let report = Report {
        format: FORMAT.into(),
        name: proxy.settings.name.clone(),
        engine: proxy.settings.engine.word().into(),
        placement: proxy.settings.placement.word().into(),
        mode: proxy.settings.mode.word().into(),
        sides: proxy.settings.sides.iter().map(Side::new).collect(),
        tunnels,
        claims,
        uptime_s: proxy.now.since(proxy.started).as_nanos() as f64 / 1e9,
        honest: now.honest,
        connections: now.connections,
        connections_max: proxy.settings.connections_max,
        pending: now.pending,
        half_open: now.half_open,
        waiting_bytes: now.waiting as u64,
        pool_bytes: proxy.settings.pool.get(),
        connection_list: list,
        reload_refused: proxy.reload_refused.clone(),
        hindrances: proxy.kernel.hindrances(),
        counters: counters.map(|(name, n)| counter(name, n)).collect(),
    };
    serde_json::to_string(&report).unwrap_or_default()
}

/// The document of a proxy on our own TCP.
pub(super) fn of_userspace(proxy: &Proxy<Userspace>) -> String {
    let body = &proxy.body;
    let mut all: BTreeMap<u64, (u64, Connection)> = BTreeMap::new();
    // A connection to a server has the application's address, and so is the half of an odd flow (`Pair`).
    for (token, connection) in body.door.tokens() {
        let (splice, own) = (&connection.splice, &connection.own);
        let health = body.door.tcp_status(token).map(|status| tcp::Health {
            round_trip: std::time::Duration::from_nanos(status.rtt.unwrap_or_default().as_nanos()),
            retransmits: u32::try_from(status.counters.retransmits).unwrap_or(u32::MAX),
            window: u32::try_from(status.cwnd / status.mss.max(1)).unwrap_or(u32::MAX),
        });
        let half = Half::new(splice.state(), splice.moved, health);
        let (moved, entry) = all.entry(splice.flow.0 | 1).or_insert_with(|| {
            let (source, target) = (own.ends.0.to_string(), own.ends.1.to_string());
            (0, Connection { source, target, ..Connection::default() })
        });
        *moved += splice.moved.from_socket + splice.moved.to_socket;
        entry.age_s = entry.age_s.max(proxy.now.since(splice.born).as_nanos() as f64 / 1e9);
        *if splice.flow.0 & 1 == 1 { &mut entry.far } else { &mut entry.near } = Some(half);
    }
    let shown = longest(all.iter().map(|(id, (moved, _))| (*moved, *id)).collect());
    let list = shown.into_iter().filter_map(|(_, id)| Some(all.remove(&id)?.1)).collect();
    let mut counts = body.door.counts.clone();
    let (closed, reset) = proxy.pair.ended;
    counts.extend([("connections_closed", closed), ("connections_reset", reset)]);
    let mut counters = proxy.counters.with(&counts);
    let (half_open, evicted) = body.door.half_open();
    counters.add("packets_plain", body.plain);
    counters.add("half_open_evicted", evicted);
    let done = body.snoop.done;
    counters.add("snoop_kept", done.kept);
    counters.add("snoop_not_kept", done.not_kept);
    counters.add("snoop_sent_again", done.sent_again);
    counters.add("snoop_suppressed", done.suppressed);
    counters.add("snoop_acks_beyond", done.beyond);
    let (ways, kept) = body.snoop.held();
    let now = Now {
        honest: true,
        // Of a connection that is snooped on both its ways may be known.
        connections: proxy.pair.flows() + ways,
        pending: body.door.pending(),
        half_open: Some(half_open),
        waiting: proxy.pair.waiting() + body.door.memory() + kept,
        moved: body.door.moved,
    };
    document(proxy, &now, list, &counters)
}

impl Report {
    /// Why connections are not listed, if none are.
    pub fn unlisted(&self) -> Option<&'static str> {
        (self.mode == config::Mode::Snoop.word()).then_some("a snoop ends no connections, so it lists none")
    }
}

impl fmt::Display for Half {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { state, in_bytes, out_bytes, .. } = self;
        write!(f, "{state}, {in_bytes} B in, {out_bytes} B out")?;
        if let (Some(rtt), Some(retransmits)) = (self.rtt_ms, self.retransmits) {
            write!(f, ", round trip {rtt:.1} ms, {retransmits} segments retransmitted")?;
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "proxy {}, engine {}, placement {}, mode {}, up {:.0} s",
            self.name, self.engine, self.placement, self.mode, self.uptime_s
        )?;
        self.sides.iter().try_for_each(|side| writeln!(f, "{side}"))?;
        self.tunnels.iter().try_for_each(|tunnel| writeln!(f, "{tunnel}"))?;
        self.claims.iter().try_for_each(|claims| writeln!(f, "{claims}"))?;
        // What a mirror passes on it does not follow.
        if self.mode != config::Mode::Mirror.word() {
            writeln!(
                f,
                "connections {} of {}, waiting for their server {}; {:.2} of {:.2} MB wait here",
                self.connections,
                self.connections_max,
                self.pending,
                self.waiting_bytes as f64 / 1e6,
                self.pool_bytes as f64 / 1e6
            )?;
        }
        self.unlisted().map_or(Ok(()), |why| writeln!(f, "{why}"))?;
        if let Some(half_open) = self.half_open.filter(|n| *n > 0) {
            writeln!(f, "half-open towards clients {half_open}")?;
        }
        for c in self.connection_list.iter().take(CONNECTIONS_PRINTED) {
            writeln!(f, "  {} to {}, {} old", c.source, c.target, age(c.age_s))?;
            for (name, half) in [("client", &c.near), ("server", &c.far)] {
                if let Some(half) = half {
                    writeln!(f, "    {name}: {half}")?;
                }
            }
        }
        match self.connections.saturating_sub(self.connection_list.len().min(CONNECTIONS_PRINTED)) {
            0 => {}
            // Those that a snoop follows stay end to end, and are not listed.
            _ if self.connection_list.is_empty() => {}
            more => writeln!(f, "  and {more} more (--json shows up to {CONNECTIONS_SHOWN})")?,
        }
        if !self.honest {
            writeln!(f, "warning: no NFQUEUE here, so connections are answered before their server has answered")?;
        }
        if let Some(why) = &self.reload_refused {
            writeln!(f, "warning: the last reload was refused ({why}); the configuration before it is in force")?;
        }
        for hindrance in &self.hindrances {
            writeln!(f, "warning: {hindrance}")?;
        }
        for c in self.counters.iter().filter(|c| c.value > 0) {
            writeln!(f, "{:>12}  {}: {}", c.value, c.name, c.why)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_of_the_document_is_the_committed_one() {
        let report = Report { format: FORMAT.into(), ..Report::default() };
        crate::status::is_committed("wavelane-proxy-status-1", FORMAT, &report);
    }
}
