//! The tables of wavelaned's files beside the settings of machines: who a gateway is, whom it knows, what it takes, what it shapes.
//!
//! Texts whose grammar needs more than this room knows (addresses, networks, keys) are read further where the file becomes a model.

use crate::gateway::{DAEMON, RadioLanes};
use crate::knob::{Bounds, Group, Knob};
use crate::lane::{Choice, LaneKnobs, START_RATES};
use crate::values::{OrOff, Setting, word_of};
use wavelane_base::{Octets, Rate, Span};

/// What happens to new connections after the daemon has died without an orderly stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnFailure {
    /// The kernel forwards them plainly.
    #[default]
    Open,
    /// They are refused.
    Closed,
}

impl Setting for OnFailure {
    const WORDS: &'static [(&'static str, Self)] = &[("open", Self::Open), ("closed", Self::Closed)];
}

/// Which networks that this host is attached to are left alone under a wider one of a peer, beside those that it serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Attached {
    /// None.
    None,
    /// Those that are not public: who hands out addresses in a foreign network takes no public ones out of a tunnel by that.
    #[default]
    Private,
    /// All.
    All,
}

impl Setting for Attached {
    const WORDS: &'static [(&'static str, Self)] =
        &[("private", Self::Private), ("none", Self::None), ("all", Self::All)];
}

/// Which source address the far gateway connects from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Source {
    /// The application's own (needs CAP_NET_ADMIN, and replies must be routed through this gateway).
    Keep,
    /// The gateway's.
    #[default]
    Own,
}

impl Setting for Source {
    const WORDS: &'static [(&'static str, Self)] = &[("own", Self::Own), ("keep", Self::Keep)];
}

/// Which lines the log has: those of its own level and of those before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum LogLevel {
    /// After which something does not go on.
    Error,
    /// What is not as it should be.
    Warning,
    /// What has changed.
    #[default]
    Info,
    /// What was decided, for who looks for a fault.
    Debug,
}

impl Setting for LogLevel {
    const WORDS: &'static [(&'static str, Self)] =
        &[("info", Self::Info), ("error", Self::Error), ("warning", Self::Warning), ("debug", Self::Debug)];
}

/// What chooses the peer for a target.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RoutingWord {
    /// The peers' routes and their order in the file.
    #[default]
    Peers,
    /// This host's routing table.
    Kernel,
}

impl Setting for RoutingWord {
    const WORDS: &'static [(&'static str, Self)] = &[("peers", Self::Peers), ("kernel", Self::Kernel)];
}

/// Which ways a lane carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Directions {
    /// Both.
    #[default]
    Both,
    /// From here to the peer.
    Out,
    /// From the peer to here.
    In,
}

impl Setting for Directions {
    const WORDS: &'static [(&'static str, Self)] = &[("both", Self::Both), ("out", Self::Out), ("in", Self::In)];
}

impl Directions {
    /// As the file has it.
    pub fn word(self) -> &'static str {
        word_of(Self::WORDS, &self)
    }
}

/// `[gateway]` beside the machine's settings.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[expect(missing_docs, reason = "what each does stands in its row of GATEWAY_TABLE")]
pub struct GatewayTable {
    pub name: Option<String>,
    pub key: Option<String>,
    pub listen: Option<String>,
    pub on_failure: Option<OnFailure>,
    pub source: Option<Source>,
    pub attached: Option<Attached>,
    pub control: Option<String>,
    pub metrics: Option<String>,
    pub hook: Option<String>,
    pub log: Option<LogLevel>,
    pub state: Option<String>,
    pub serves: Option<Vec<String>>,
    pub routing: Option<RoutingWord>,
    pub routing_table: Option<u32>,
}

const TABLES: Bounds = Bounds { remedies: ["the main one is 254", ""], ..Bounds::of(1, u32::MAX as u64) };
const LANE_MARKS: Bounds = Bounds {
    remedies: ["0 is what every unmarked packet has: choose another, such as 7", ""],
    ..Bounds::of(1, u32::MAX as u64)
};
const NETWORKS: Bounds = Bounds::texts("networks");
const KEY: Bounds = Bounds::texts("base64");
const FILE: Bounds = Bounds::texts("path");
const LISTEN: Bounds = Bounds::texts("`address:port`");
const CALLED: Bounds = Bounds::texts("`host:port`");
const NAME: Bounds = Bounds::texts("one word");
const INTERFACE: Bounds = Bounds::texts("interface");

/// What the key `log` does in all files.
const LOGGED: &str = "the least level of a line of the log";

/// Their declarations, in the order in which the guide has them.
#[rustfmt::skip] // A table is read by its rows.
pub const GATEWAY_TABLE: Group<GatewayTable> = Group(&[
    Knob { name: "name", stands: DAEMON, bounds: NAME, field: |k| &mut k.name, default: "required, such as `\"ship\"`", says: "for people" },
    Knob { name: "key", stands: DAEMON, bounds: FILE, field: |k| &mut k.key, default: "required, such as `\"ship.key\"`", says: "private key file, mode 0600" },
    Knob { name: "listen", stands: DAEMON, bounds: LISTEN, field: |k| &mut k.listen, default: "`\"0.0.0.0:4780\"`",
        says: "of the lanes, UDP; `\"[::]:4780\"` accepts both IP versions" },
    Knob { name: "on-failure", stands: DAEMON, bounds: Bounds::NONE, field: |k| &mut k.on_failure, default: "`open`",
        says: "traffic to be intercepted, after a crash or while its peer is down: forwarded plainly, or refused (without `[tun]` TCP only)" },
    Knob { name: "source", stands: DAEMON, bounds: Bounds::NONE, field: |k| &mut k.source, default: "`own`",
        says: "connect to servers from ours, or the application's address (`init`'s choice where it intercepts)" },
    Knob { name: "attached", stands: DAEMON, bounds: Bounds::NONE, field: |k| &mut k.attached, default: "`private`",
        says: "networks of other interfaces than the intercepted ones that stay reachable under a peer's wider route ([why](other-programs.md#attached-networks))" },
    Knob { name: "control", stands: DAEMON, bounds: FILE, field: |k| &mut k.control, default: "`/run/wavelane-NAME.sock` for root, `/run/wavelane/` as a service",
        says: "control socket (mode 0600)" },
    Knob { name: "metrics", stands: DAEMON, bounds: LISTEN, field: |k| &mut k.metrics, default: "off",
        says: "where figures for Prometheus are served, such as `\"127.0.0.1:9478\"` ([below](#figures-over-time))" },
    Knob { name: "hook", stands: DAEMON, bounds: FILE, field: |k| &mut k.hook, default: "none",
        says: "a program that is run, as the daemon's user, when a peer or a lane begins or ceases to answer: `peer-up PEER`, `peer-down PEER`, `lane-up PEER LANE`, `lane-down PEER LANE`; it has 10 s, and of changes in the meantime it is told the latest of each" },
    Knob { name: "log", stands: DAEMON, bounds: Bounds::NONE, field: |k| &mut k.log, default: "`info`", says: LOGGED },
    Knob { name: "state", stands: DAEMON, bounds: FILE, field: |k| &mut k.state, default: "`NAME.epoch` in systemd's `StateDirectory`, else beside the key",
        says: "the last boot epoch; with `.peers` appended, the last addresses of peers without `address`" },
    Knob { name: "serves", stands: DAEMON, bounds: NETWORKS, field: |k| &mut k.serves, default: "nothing",
        says: "the networks on this side: what peers may reach unless their `allow_targets` say otherwise" },
    Knob { name: "routing", stands: DAEMON, bounds: Bounds::NONE, field: |k| &mut k.routing, default: "`peers`",
        says: "by which of several peers a target is reached: by their order in the file, or by this host's routing table ([below](#routes-of-the-kernel))" },
    Knob { name: "routing-table", stands: DAEMON, bounds: TABLES, field: |k| &mut k.routing_table, default: "254, the main one",
        says: "with `kernel`: its number" },
]);

/// `[[edge]]`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[expect(missing_docs, reason = "what each does stands in its row of EDGE")]
pub struct EdgeTable {
    pub name: Option<String>,
    pub public_key: Option<String>,
    pub routes: Option<Vec<String>>,
}

/// Their declarations.
#[rustfmt::skip] // A table is read by its rows.
pub const EDGE: Group<EdgeTable> = Group(&[
    Knob { name: "name", stands: DAEMON, bounds: NAME, field: |k| &mut k.name, default: "required, such as `\"town\"`",
        says: "with `seal`: a gateway that is reached over others; it may also open connections to this one" },
    Knob { name: "public-key", stands: DAEMON, bounds: KEY, field: |k| &mut k.public_key, default: "required, such as `\"...\"`", says: "its key" },
    Knob { name: "routes", stands: DAEMON, bounds: NETWORKS, field: |k| &mut k.routes, default: "none", says: "behind it" },
]);

/// `[[peer]]`, but for its lanes; what is not set has its default.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[expect(missing_docs, reason = "what each does stands in its row of PEER")]
pub struct PeerTable {
    pub name: Option<String>,
    pub public_key: Option<String>,
    pub preshared_key: Option<String>,
    pub address: Option<String>,
    pub routes: Option<Vec<String>>,
    pub next_hops: Option<Vec<String>>,
    pub allow_targets: Option<Vec<String>>,
    pub allow_sources: Option<Vec<String>>,
    pub controller: Option<String>,
    pub choice: Option<Choice>,
    pub keepalive: Option<OrOff<Span>>,
    pub split: Option<bool>,
}

/// Their declarations, in the order in which the guide has them.
#[rustfmt::skip] // A table is read by its rows.
pub const PEER: Group<PeerTable> = Group(&[
    Knob { name: "name", stands: DAEMON, bounds: NAME, field: |k| &mut k.name, default: "required, such as `\"shore\"`", says: "the other gateway" },
    Knob { name: "public-key", stands: DAEMON, bounds: KEY, field: |k| &mut k.public_key, default: "required, such as `\"...\"`", says: "its key" },
    Knob { name: "preshared-key", stands: DAEMON, bounds: FILE, field: |k| &mut k.preshared_key, default: "none", says: "file with a second, symmetric key" },
    Knob { name: "address", stands: DAEMON, bounds: CALLED, field: |k| &mut k.address, default: "none",
        says: "such as `\"[2001:db8::7]:4780\"` or a name; leave out if it calls us" },
    Knob { name: "routes", stands: DAEMON, bounds: NETWORKS, field: |k| &mut k.routes, default: "none",
        says: "targets taken through this peer; the longest match wins, of equal ones the first peer in the file that is not down" },
    Knob { name: "next-hops", stands: DAEMON, bounds: Bounds::texts("addresses"), field: |k| &mut k.next_hops, default: "none",
        says: "with `routing = \"kernel\"`: where the routing table names this peer, beside those of its lanes" },
    Knob { name: "allow-targets", stands: DAEMON, bounds: NETWORKS, field: |k| &mut k.allow_targets, default: "`gateway.serves`",
        says: "what it may reach through us, here or behind other peers" },
    Knob { name: "allow-sources", stands: DAEMON, bounds: NETWORKS, field: |k| &mut k.allow_sources, default: "its `routes`, where sources are checked",
        says: "sources it may use; for packets its `routes` too" },
    Knob { name: "controller", stands: DAEMON, bounds: Bounds::texts("`delay`, `cubic`, `fixed 20 Mbit/s`"), field: |k| &mut k.controller, default: "`delay`",
        says: "`fixed` is for a dedicated link" },
    Knob { name: "choice", stands: DAEMON, bounds: Bounds::NONE, field: |k| &mut k.choice, default: "`bond`", says: crate::lane::HOW },
    Knob { name: "keepalive", stands: DAEMON, bounds: Bounds::times(Span::from_secs(1), Span::from_secs(3_600)), field: |k| &mut k.keepalive,
        default: "`25 s` with an address of it or of a lane, else `off`", says: "idle time after which a datagram is sent to it" },
    Knob { name: "split", stands: DAEMON, bounds: Bounds::NONE, field: |k| &mut k.split, default: "`true`",
        says: "whether TCP to its routes is split; `false` needs `[tun]`" },
]);

/// How a serial line is set: of a lane over one, and of `[serial]`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[expect(missing_docs, reason = "what each does stands in its row of SERIAL")]
pub struct LineKeys {
    pub rate: Option<String>,
    pub framing: Option<String>,
    pub flow_control: Option<String>,
    pub carrier: Option<bool>,
    pub chat: Option<String>,
    pub mtu: Option<usize>,
}

/// Every host takes packets of the least size (RFC 1122, section 3.3.3), and a handshake with its answer fits. Shorter frames would need
/// datagrams to be cut. No lane carries longer packets than the most.
pub const LINE_MTU: core::ops::RangeInclusive<usize> = 576..=1_500;
const CUT: &str = "a lane cuts no packets";
const LINE_MTUS: Bounds = Bounds { remedies: [CUT; 2], ..Bounds::of(*LINE_MTU.start() as u64, *LINE_MTU.end() as u64) };
const FRAMINGS: Bounds = Bounds::texts("`slip`, `slip-1998`, `ppp`, `kiss`, `cslip`");
const FLOW: Bounds = Bounds::texts("`none`, `hardware`");
/// What a lane's line is set by; `[serial]` has the same with its meaning.
const LINE: &str = "of `serial`";

/// `[[peer.lane]]`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[expect(missing_docs, reason = "what each does stands in its row of LANE")]
pub struct LaneTable {
    pub medium: Option<String>,
    pub address: Option<String>,
    pub device: Option<String>,
    pub local: Option<String>,
    pub direction: Option<Directions>,
    pub priority: Option<u8>,
    pub mark: Option<u32>,
    pub radio: Option<RadioLanes>,
    pub line: LineKeys,
    /// How it is used.
    pub knobs: LaneKnobs,
}

/// Their declarations, in the order in which the guide has them.
#[rustfmt::skip] // A table is read by its rows.
pub const LANE: Group<LaneTable> = Group(&[
    Knob { name: "medium", stands: DAEMON, bounds: Bounds::texts("`udp`, `ethernet`, `serial`"), field: |k| &mut k.medium, default: "`udp`",
        says: "`ethernet`: frames without IP, which need a `device`; `serial`: a port, whose keys are [explained there](serial.md)" },
    Knob { name: "address", stands: DAEMON, bounds: CALLED, field: |k| &mut k.address, default: "none",
        says: "of the peer on this lane, a name or a number; leave out if the peer calls us. A name is looked up again while no answer arrives on the lane. For an Ethernet lane the link-layer address, such as `02:00:00:00:00:0b`" },
    Knob { name: "device", stands: DAEMON, bounds: Bounds::texts("interface, or path of a port"), field: |k| &mut k.device, default: "any",
        says: "the only interface on which this lane sends and receives, whatever interface the best route has ([below](#routes-by-a-device); needs CAP_NET_RAW)" },
    Knob { name: "local", stands: DAEMON, bounds: LISTEN, field: |k| &mut k.local, default: "`gateway.listen`, or with a `device` or `mark` any address and port",
        says: "our own on this lane, another port than that of `listen`; port 0 lets the system choose. While the address is not this machine's the lane waits for it" },
    Knob { name: "direction", stands: DAEMON, bounds: Bounds::NONE, field: |k| &mut k.direction, default: "`both`",
        says: "`out`: this gateway only sends on the lane; `in`: it only receives" },
    Knob { name: "mark", stands: DAEMON, bounds: LANE_MARKS, field: |k| &mut k.mark, default: "none",
        says: "firewall mark (`SO_MARK`) of what a UDP lane sends, such as 7: by `ip rule add fwmark 7 table 100` the lane takes the routes of table 100. Needs CAP_NET_ADMIN; not with `[tun]` and `local = true` together" },
    Knob { name: "priority", stands: DAEMON, bounds: Bounds::of(0, 7), field: |k| &mut k.priority, default: "0",
        says: "of an Ethernet lane, the user priority of its frames (IEEE 802.1D): on Wi-Fi the access category ([below](#a-radio-without-ip))" },
    Knob { name: "radio", stands: DAEMON, bounds: Bounds::NONE, field: |k| &mut k.radio, default: "`plain`",
        says: "`paced` or `raw` on a UDP lane over Wi-Fi with `rate` and a `local` or `device`: medium access sets the pace ([below](#a-lane-over-wi-fi))" },
    Knob { name: "metered", stands: DAEMON, bounds: Bounds::NONE, field: |k| &mut k.knobs.metered, default: "`false`",
        says: "sending on it costs money: it is used only while no other lane works. The peer is told, and spares the way back too" },
    Knob { name: "bulk", stands: DAEMON, bounds: Bounds::NONE, field: |k| &mut k.knobs.bulk, default: "`true`",
        says: "whether it may carry bulk; one lane out has to" },
    Knob { name: "small", stands: DAEMON, bounds: Bounds::NONE, field: |k| &mut k.knobs.small, default: "`true`",
        says: "whether it carries small exchanges, acknowledgements and small packets while another lane can; one lane out has to" },
    Knob { name: "start-rate", stands: DAEMON, bounds: START_RATES, field: |k| &mut k.knobs.start_rate, default: "measured on a link with one lane, else 4 Mbit/s; of a serial lane its line's",
        says: "the rate at which the controller starts on a slow lane ([why](lanes.md#a-line-of-a-few-kilobits))" },
    Knob { name: "rate", stands: DAEMON, bounds: Bounds::texts("rate"), field: |k| &mut k.line.rate, default: "", says: LINE },
    Knob { name: "framing", stands: DAEMON, bounds: FRAMINGS, field: |k| &mut k.line.framing, default: "", says: LINE },
    Knob { name: "flow-control", stands: DAEMON, bounds: FLOW, field: |k| &mut k.line.flow_control, default: "", says: LINE },
    Knob { name: "carrier", stands: DAEMON, bounds: Bounds::NONE, field: |k| &mut k.line.carrier, default: "", says: LINE },
    Knob { name: "chat", stands: DAEMON, bounds: Bounds::NONE, field: |k| &mut k.line.chat, default: "", says: LINE },
    Knob { name: "mtu", stands: DAEMON, bounds: LINE_MTUS, field: |k| &mut k.line.mtu, default: "", says: LINE },
]);

/// `[serial]`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[expect(missing_docs, reason = "what each does stands in its row of SERIAL")]
pub struct SerialTable {
    pub device: Option<String>,
    pub line: LineKeys,
    pub compress: Option<bool>,
    pub name: Option<String>,
    pub addresses: Option<Vec<String>>,
    pub peer: Option<String>,
    pub routes: Option<Vec<String>>,
    pub user: Option<String>,
    pub secret_file: Option<String>,
    pub auth: Option<String>,
}

/// Their declarations, in the order in which the guide has them.
#[rustfmt::skip] // A table is read by its rows.
pub const SERIAL: Group<SerialTable> = Group(&[
    Knob { name: "device", stands: DAEMON, bounds: FILE, field: |k| &mut k.device, default: "required, such as `\"/dev/ttyUSB0\"`",
        says: "the port; `/dev/serial/by-id/...` stays the same whatever is plugged in" },
    Knob { name: "rate", stands: DAEMON, bounds: Bounds::texts("rate"), field: |k| &mut k.line.rate, default: "`\"115.2 kbit/s\"`",
        says: "of the port, from 300 bit/s, such as `\"33.6 kbit/s\"`" },
    Knob { name: "framing", stands: DAEMON, bounds: FRAMINGS, field: |k| &mut k.line.framing, default: "`slip`",
        says: "`kiss`: a packet-radio modem; `cslip`: of `[serial]` alone" },
    Knob { name: "flow-control", stands: DAEMON, bounds: FLOW, field: |k| &mut k.line.flow_control, default: "`none`",
        says: "`hardware`: RTS and CTS, which a modem faster at the port than on the line needs" },
    Knob { name: "carrier", stands: DAEMON, bounds: Bounds::NONE, field: |k| &mut k.line.carrier, default: "`false`",
        says: "the port counts only while its DCD is on, with `chat` during calls, and fails at once when that goes off" },
    Knob { name: "chat", stands: DAEMON, bounds: Bounds::NONE, field: |k| &mut k.line.chat, default: "none",
        says: "how a [modem](#a-modem-that-is-dialled) gets its connection" },
    Knob { name: "mtu", stands: DAEMON, bounds: LINE_MTUS, field: |k| &mut k.line.mtu, default: "1500 from 115.2 kbit/s on, else 576",
        says: "the longest packet; told to both ends, never searched for" },
    Knob { name: "compress", stands: DAEMON, bounds: Bounds::NONE, field: |k| &mut k.compress, default: "`true`", says: "of PPP: TCP headers may be compressed" },
    Knob { name: "name", stands: DAEMON, bounds: INTERFACE, field: |k| &mut k.name, default: "`\"serial0\"`", says: "its own" },
    Knob { name: "addresses", stands: DAEMON, bounds: Bounds::texts("addresses"), field: |k| &mut k.addresses, default: "none", says: "of this end; PPP asks for one" },
    Knob { name: "peer", stands: DAEMON, bounds: Bounds::texts("IPv4 address"), field: |k| &mut k.peer, default: "none", says: "what PPP tells the other end" },
    Knob { name: "routes", stands: DAEMON, bounds: NETWORKS, field: |k| &mut k.routes, default: "none", says: "what the line leads to" },
    Knob { name: "user", stands: DAEMON, bounds: Bounds::NONE, field: |k| &mut k.user, default: "none", says: "who this end is, for a provider's PPP that asks" },
    Knob { name: "secret-file", stands: DAEMON, bounds: FILE, field: |k| &mut k.secret_file, default: "none",
        says: "of one line with mode 600 (`*.secret` in `/etc/wavelane`)" },
    Knob { name: "auth", stands: DAEMON, bounds: Bounds::texts("`any`, `chap`"), field: |k| &mut k.auth, default: "`any`",
        says: "`chap`: the secret itself (PAP) is never told. After three refusals it is told once an hour, until a restart" },
]);

/// `[intercept]`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[expect(missing_docs, reason = "what each does stands in its row of INTERCEPT")]
pub struct InterceptTable {
    pub interfaces: Option<Vec<String>>,
    pub local: bool,
}

/// Their declarations.
#[rustfmt::skip] // A table is read by its rows.
pub const INTERCEPT: Group<InterceptTable> = Group(&[
    Knob { name: "interfaces", stands: DAEMON, bounds: Bounds::texts("interfaces"), field: |k| &mut k.interfaces, default: "none", says: "whose TCP is taken" },
    Knob { name: "local", stands: DAEMON, bounds: Bounds::NONE, field: |k| &mut k.local, default: "`false`", says: "take this host's own" },
]);

/// `[tun]`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[expect(missing_docs, reason = "what each does stands in its row of TUN")]
pub struct TunTable {
    pub name: Option<String>,
    pub addresses: Option<Vec<String>>,
    pub mtu: Option<u16>,
    pub offload: Option<bool>,
    pub masquerade: bool,
}

/// Their declarations.
#[rustfmt::skip] // A table is read by its rows.
pub const TUN: Group<TunTable> = Group(&[
    Knob { name: "name", stands: DAEMON, bounds: INTERFACE, field: |k| &mut k.name, default: "`\"wavelane0\"`",
        says: "the device through which everything that is not split TCP goes" },
    Knob { name: "addresses", stands: DAEMON, bounds: Bounds::texts("addresses"), field: |k| &mut k.addresses, default: "none",
        says: "this host's on it, such as `\"10.9.0.1/24\"`" },
    // IPv6 needs 1280 bytes (RFC 8200, section 5), and a lane carries no jumbograms.
    Knob { name: "mtu", stands: DAEMON, bounds: Bounds::of(1_280, 9_000), field: |k| &mut k.mtu, default: "1400", says: "its MTU" },
    Knob { name: "offload", stands: DAEMON, bounds: Bounds::NONE, field: |k| &mut k.offload, default: "`true`", says: "exchange super-packets with the kernel" },
    Knob { name: "masquerade", stands: DAEMON, bounds: Bounds::NONE, field: |k| &mut k.masquerade, default: "`false`",
        says: "what peers send through the device to public addresses leaves here under this host's own; the interface to the Internet has to be among `intercept.interfaces`, by which answers come back" },
]);

/// `[[forward]]`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[expect(missing_docs, reason = "what each does stands in its row of FORWARD")]
pub struct ForwardTable {
    pub listen: Option<String>,
    pub to: Option<String>,
    pub via: Option<String>,
}

/// Their declarations.
#[rustfmt::skip] // A table is read by its rows.
pub const FORWARD: Group<ForwardTable> = Group(&[
    Knob { name: "listen", stands: DAEMON, bounds: LISTEN, field: |k| &mut k.listen, default: "required, such as `\"127.0.0.1:8080\"`", says: "plain forward: listen here" },
    Knob { name: "to", stands: DAEMON, bounds: LISTEN, field: |k| &mut k.to, default: "required, such as `\"10.3.0.7:80\"`", says: "connect there" },
    Knob { name: "via", stands: DAEMON, bounds: Bounds::NONE, field: |k| &mut k.via, default: "required, such as `\"shore\"`", says: "from this peer" },
]);

/// `[proxy]`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[expect(missing_docs, reason = "what each does stands in its row of PROXY")]
pub struct ProxyTable {
    pub interfaces: Option<Vec<String>>,
    pub targets: Option<Vec<String>>,
    pub exempt: Option<Vec<String>>,
    pub routers: Option<Vec<String>>,
    pub clients: Option<Vec<String>>,
    pub on_failure: Option<OnFailure>,
    pub engine: Option<String>,
    pub placement: Option<String>,
    pub mode: Option<String>,
    pub early: Option<bool>,
    pub name: Option<String>,
    pub control: Option<String>,
    pub log: Option<LogLevel>,
    pub connections_max: Option<usize>,
    pub pool: Option<Octets>,
}

/// Their declarations, in the order in which the guide has them.
#[rustfmt::skip] // A table is read by its rows.
pub const PROXY: Group<ProxyTable> = Group(&[
    Knob { name: "interfaces", stands: DAEMON, bounds: Bounds::texts("interfaces"), field: |k| &mut k.interfaces, default: "required, such as `[\"lan0\"]`",
        says: "connections that arrive there, of `tunnel` the outer packets, are split" },
    Knob { name: "targets", stands: DAEMON, bounds: NETWORKS, field: |k| &mut k.targets, default: "all", says: "only those to these" },
    Knob { name: "exempt", stands: DAEMON, bounds: Bounds::texts("texts"), field: |k| &mut k.exempt, default: "none",
        says: "bypass: networks of servers (on a bridge of clients, too), `port N` of servers, `dscp N` of the first packet" },
    Knob { name: "routers", stands: DAEMON, bounds: Bounds::texts("addresses"), field: |k| &mut k.routers, default: "none", says: "of `arp`: whose addresses clients are told to be here" },
    Knob { name: "clients", stands: DAEMON, bounds: NETWORKS, field: |k| &mut k.clients, default: "none", says: "of `arp`: who is told so, and whose addresses the routers are told to be here" },
    Knob { name: "on-failure", stands: DAEMON, bounds: Bounds::NONE, field: |k| &mut k.on_failure, default: "`open`",
        says: "what there is no room for, and after a crash everything new, is forwarded plainly, or refused" },
    Knob { name: "engine", stands: DAEMON, bounds: Bounds::texts("`kernel`, `userspace`"), field: |k| &mut k.engine, default: "`kernel`", says: "whose TCP" },
    Knob { name: "placement", stands: DAEMON, bounds: Bounds::texts("`route`, `bridge`, `option`, `tunnel`, `arp`"), field: |k| &mut k.placement, default: "`route`", says: "[above](#placements)" },
    Knob { name: "mode", stands: DAEMON, bounds: Bounds::texts("`split`, `mirror`, `snoop`"), field: |k| &mut k.mode, default: "`split`", says: "[below](#mirror-and-snoop), with `userspace`" },
    Knob { name: "early", stands: DAEMON, bounds: Bounds::texts("`false`"), field: |k| &mut k.early, default: "`false`", says: "no `true`: a client is answered after the server" },
    Knob { name: "name", stands: DAEMON, bounds: NAME, field: |k| &mut k.name, default: "`\"proxy\"`", says: "in the log" },
    Knob { name: "control", stands: DAEMON, bounds: FILE, field: |k| &mut k.control, default: "by its name", says: "where `status` asks" },
    Knob { name: "log", stands: DAEMON, bounds: Bounds::NONE, field: |k| &mut k.log, default: "`info`", says: LOGGED },
    Knob { name: "connections-max", stands: DAEMON, bounds: Bounds::of(1, 100_000), field: |k| &mut k.connections_max, default: "8000; in `kernel` two descriptors each",
        says: "connections at a time; beyond them, new ones go plainly" },
    Knob { name: "pool", stands: DAEMON, bounds: Bounds::of(1 << 20, 1 << 40), field: |k| &mut k.pool, default: "256 MiB",
        says: "bytes that wait between the halves of all connections, in `userspace` in their buffers too" },
]);

/// `[[proxy.tunnel]]`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[expect(missing_docs, reason = "what each does stands in its row of TUNNEL")]
pub struct TunnelTable {
    pub peer: Option<String>,
    pub networks: Option<Vec<String>>,
}

/// Their declarations.
#[rustfmt::skip] // A table is read by its rows.
pub const TUNNEL: Group<TunnelTable> = Group(&[
    Knob { name: "peer", stands: DAEMON, bounds: Bounds::texts("IPv4 address"), field: |k| &mut k.peer, default: "required, such as `\"10.1.0.2\"`", says: "the other end" },
    Knob { name: "networks", stands: DAEMON, bounds: NETWORKS, field: |k| &mut k.networks, default: "required, such as `[\"10.9.0.0/24\"]`", says: "the senders behind it" },
]);

/// `[[proxy.side]]`, but for its TCP.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[expect(missing_docs, reason = "what each does stands in its row of SIDE_TABLE")]
pub struct SideTable {
    pub name: Option<String>,
    pub networks: Option<Vec<String>>,
}

/// Their declarations.
#[rustfmt::skip] // A table is read by its rows.
pub const SIDE_TABLE: Group<SideTable> = Group(&[
    Knob { name: "name", stands: DAEMON, bounds: NAME, field: |k| &mut k.name, default: "required, such as `\"air\"`", says: "in the log" },
    Knob { name: "networks", stands: DAEMON, bounds: NETWORKS, field: |k| &mut k.networks, default: "both sides",
        says: "of the half's remote end, whoever opened; the first side that holds it counts" },
]);

/// By what an interface is shaped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum How {
    /// The first of the others that is available here, in their order.
    #[default]
    Auto,
    /// The kernel's `cake`.
    Cake,
    /// The kernel's `fq_codel` behind its `htb`.
    FqCodel,
    /// Our own queue, to which the kernel hands each packet.
    Path,
    /// The kernel's `tbf`, a FIFO that is kept short: without a queue per conversation.
    Tbf,
}

impl Setting for How {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("auto", Self::Auto),
        ("cake", Self::Cake),
        ("fq_codel", Self::FqCodel),
        ("path", Self::Path),
        ("tbf", Self::Tbf),
    ];
}

impl How {
    /// The word for it in the file.
    pub fn word(self) -> &'static str {
        word_of(Self::WORDS, &self)
    }
}

/// Which one-way delay shows the queue that an automatic rate avoids.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DelayDirection {
    /// That towards the reflector: the interface leads to the provider.
    #[default]
    Up,
    /// That from the reflector: the interface leads into the house.
    Down,
}

impl Setting for DelayDirection {
    const WORDS: &'static [(&'static str, Self)] = &[("up", Self::Up), ("down", Self::Down)];
}

/// What a link cuts packets into.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CellsWord {
    /// Nothing.
    #[default]
    None,
    /// Cells of ATM.
    Atm,
    /// Words of PTM.
    Ptm,
}

impl Setting for CellsWord {
    const WORDS: &'static [(&'static str, Self)] = &[("none", Self::None), ("atm", Self::Atm), ("ptm", Self::Ptm)];
}

/// What stands above the tables of a shaper's file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[expect(missing_docs, reason = "what each does stands in its row of SHAPERS")]
pub struct ShapersTable {
    pub log: Option<LogLevel>,
}

/// Their declarations.
pub const SHAPERS: Group<ShapersTable> = Group(&[Knob {
    name: "log",
    stands: DAEMON,
    bounds: Bounds::NONE,
    field: |k| &mut k.log,
    default: "`info`",
    says: LOGGED,
}]);

/// `[[shaper]]`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[expect(missing_docs, reason = "what each does stands in its row of SHAPER")]
pub struct ShaperTable {
    pub interface: Option<String>,
    pub rate: Option<String>,
    pub rate_min: Option<Rate>,
    pub rate_max: Option<Rate>,
    pub rate_idle: Option<Rate>,
    pub reflector: Option<String>,
    pub direction: Option<DelayDirection>,
    pub rise: Option<Span>,
    pub overhead: Option<u16>,
    pub packet_min: Option<u16>,
    pub cells: Option<CellsWord>,
    pub how: Option<How>,
}

/// The least that is shaped: a full packet takes 1.5 s.
const SHAPED: Bounds = Bounds::of(8_000, u64::MAX);
/// Most octets that a link may add to a packet.
const OVERHEADS: Bounds = Bounds::of(0, 256);

/// Their declarations, in the order in which the guide has them.
#[rustfmt::skip] // A table is read by its rows.
pub const SHAPER: Group<ShaperTable> = Group(&[
    Knob { name: "interface", stands: DAEMON, bounds: INTERFACE, field: |k| &mut k.interface, default: "required, such as `\"wan0\"`", says: "what leaves by it is shaped" },
    Knob { name: "rate", stands: DAEMON, bounds: Bounds::texts("rate, or `auto`"), field: |k| &mut k.rate, default: "required, such as `\"18 Mbit/s\"`",
        says: "counted as the link counts; `auto` follows the delay to `reflector`" },
    Knob { name: "rate-min", stands: DAEMON, bounds: SHAPED, field: |k| &mut k.rate_min, default: "required with `auto`", says: "the lower bound of `auto`" },
    Knob { name: "rate-max", stands: DAEMON, bounds: SHAPED, field: |k| &mut k.rate_max, default: "required with `auto`", says: "the upper one" },
    Knob { name: "rate-idle", stands: DAEMON, bounds: SHAPED, field: |k| &mut k.rate_idle, default: "a quarter of the way up",
        says: "with `auto`: where it begins, and returns to while nothing is sent" },
    Knob { name: "reflector", stands: DAEMON, bounds: Bounds::texts("IPv4 address, or `ADDRESS:PORT`"), field: |k| &mut k.reflector, default: "required with `auto`",
        says: "a machine beyond the slow link that answers ICMP timestamps, or echoes; or `wavelane probe serve` there, or a peer's gateway at its `listen`, asked from the address of a peer that is up" },
    Knob { name: "direction", stands: DAEMON, bounds: Bounds::NONE, field: |k| &mut k.direction, default: "`up`",
        says: "with `auto`: which one-way delay counts, towards the reflector or, where the interface leads into the home, `down`" },
    Knob { name: "rise", stands: DAEMON, bounds: Bounds::times(Span::from_millis(2), Span::from_millis(1_000)), field: |k| &mut k.rise, default: "`\"30 ms\"`",
        says: "with `auto`: a rise of the delay that is a queue" },
    Knob { name: "overhead", stands: DAEMON, bounds: OVERHEADS, field: |k| &mut k.overhead, default: "0", says: "octets that the link adds to an IP packet" },
    Knob { name: "packet-min", stands: DAEMON, bounds: OVERHEADS, field: |k| &mut k.packet_min, default: "0", says: "the least that it then takes" },
    Knob { name: "cells", stands: DAEMON, bounds: Bounds::NONE, field: |k| &mut k.cells, default: "`none`", says: "what the link cuts packets into: ADSL `atm`, VDSL2 `ptm`" },
    Knob { name: "how", stands: DAEMON, bounds: Bounds::NONE, field: |k| &mut k.how, default: "`auto`",
        says: "`fq_codel` behind htb, `path` (our own queue), `tbf` (a short FIFO), or the first that works here" },
]);
