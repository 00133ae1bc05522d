//! Starting: everything that can be refused is refused here, with one line.

use crate::config::marks::{MARK_DIVERT, MARK_OWN};
use crate::config::{Config, ConfigError, LaneSocket};
use crate::control::{Control, ControlError};
use crate::key_log::KeyLog;
use crate::metrics;
use crate::serial::LineDevice;
use crate::system::device::{self, Ways};
use crate::system::installed::Installed;
use crate::system::interface::DeviceError;
use crate::system::medium::{self, Port};
use crate::system::rules::{self, NUMBER, Rules, RulesError};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::path::Path;
use wavelane_gateway as gateway;
use wavelane_host::claim::Claim;
use wavelane_host::nfqueue::NfQueue;
use wavelane_host::raw::RawSender;
use wavelane_host::tun::OffloadTun;
use wavelane_host::{caps, has_ipv6, nft, tcp, udp::UdpLane};

/// Why the daemon does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The gateway machine refuses its configuration.
    #[error(transparent)]
    Gateway(#[from] gateway::ConfigError),
    /// A port is taken.
    #[error("{what} {address} is in use by another program: stop it (`ss -lptun` names it) or choose another address")]
    Busy {
        /// Which kind of port.
        what: &'static str,
        /// The address.
        address: SocketAddr,
    },
    /// An address cannot be used.
    #[error("cannot open {what} {address}: {source}; correct the address or the permission")]
    Port {
        /// Which kind of port.
        what: &'static str,
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// A lane's device cannot be used.
    #[error("cannot bind a lane to device '{device}': {source}; {}", device_remedy(source))]
    Device {
        /// Which.
        device: String,
        /// What the system said.
        source: io::Error,
    },
    /// What a lane sends cannot be marked.
    #[error("cannot set the `mark` of a lane: {source}; give wavelaned CAP_NET_ADMIN, or remove the mark")]
    Mark {
        /// What the system said.
        source: io::Error,
    },
    /// The key log or the capture of lines cannot be opened.
    #[error("cannot append to {path}: {source}; name a file that the daemon may write", path = path.display())]
    KeyLog {
        /// Which file.
        path: std::path::PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another daemon runs with the same state file, hence the same key.
    #[error(
        "another wavelaned runs with the state file {}: stop it first, or give this gateway a key and a `state` of its own",
        state.display()
    )]
    Running {
        /// Which file.
        state: std::path::PathBuf,
    },
    /// What is locked is no file of ours.
    #[error("cannot lock {path}: it is a link, or no plain file ({source}); remove it, or name another `state`", path = path.display())]
    Lock {
        /// Which file.
        path: std::path::PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The transparent door or the control socket.
    #[error("{0}")]
    Door(String),
    /// It did not start and refuses new connections, as configured.
    #[error(
        "{why} (meanwhile new connections are refused, as on_failure = \"closed\" asks; to forward them plainly run: {lift})"
    )]
    Closed {
        /// Why it did not start.
        why: Box<StartError>,
        /// What the operator can run.
        lift: String,
    },
    /// The system refused something that should always work.
    #[error("the system refused {what}: {source}; check limits (ulimit -n) and permissions")]
    System {
        /// What.
        what: &'static str,
        /// What it said.
        source: io::Error,
    },
}

impl StartError {
    /// Whether it may start when tried again, the file being as it is: another program has a port, perhaps for a moment.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Busy { .. } => true,
            Self::Device { source, .. } => is_taken(source),
            Self::Closed { why, .. } => why.may_pass(),
            _ => false,
        }
    }
}

impl From<RulesError> for StartError {
    fn from(e: RulesError) -> Self {
        Self::Door(e.to_string())
    }
}

impl From<DeviceError> for StartError {
    fn from(e: DeviceError) -> Self {
        Self::Door(e.to_string())
    }
}

impl From<ControlError> for StartError {
    fn from(e: ControlError) -> Self {
        Self::Door(e.to_string())
    }
}

/// The capabilities of a daemon that takes traffic; it keeps them, because rules and routes change while it runs.
pub(crate) const CAPABILITIES: [u8; 2] = [caps::NET_ADMIN, caps::NET_RAW];

/// The transparent door's sockets.
#[derive(Debug)]
pub(crate) struct Transparent {
    /// IPv4's, and IPv6's where there is IPv6.
    pub(crate) listeners: Vec<TcpListener>,
    pub(crate) queue: Option<NfQueue>,
    pub(crate) raw: RawSender,
}

/// Everything opened.
pub(crate) struct Opened {
    /// The socket of `listen`, then the lanes' own.
    /// The gateway's ports. One whose device is not there yet has no socket.
    pub(crate) lanes: Vec<Option<Port>>,
    pub(crate) control: Control,
    /// Where figures are served.
    pub(crate) metrics: Option<metrics::Place>,
    pub(crate) forwards: Vec<TcpListener>,
    pub(crate) transparent: Option<Transparent>,
    pub(crate) installed: Option<Installed>,
    pub(crate) tun: Option<OffloadTun>,
    /// The device of `[serial]`.
    pub(crate) line: Option<LineDevice>,
    pub(crate) mark: Option<u32>,
    /// Lines for the log.
    pub(crate) remarks: Vec<String>,
}

/// What to do about a device that no lane can be bound to.
fn device_remedy(error: &io::Error) -> &'static str {
    if let Some(remedy) = medium::remedy(error) {
        return remedy;
    }
    match error.kind() {
        ErrorKind::PermissionDenied => "give it the permission (CAP_NET_RAW)",
        ErrorKind::AddrInUse => {
            "another program has the lane's `local` port: stop it (`ss -lptun` names it) or choose another"
        }
        _ => "check its name and whether it exists (`ip link`)",
    }
}

fn port_error(what: &'static str, address: SocketAddr) -> impl Fn(io::Error) -> StartError {
    move |source| match source.kind() {
        ErrorKind::AddrInUse => StartError::Busy { what, address },
        _ => StartError::Port { what, address, source },
    }
}

/// Opens everything the configuration asks for, and checks that nothing else is in the files that are `appended` to.
pub(crate) fn open(config: &Config, appended: &[&Path]) -> Result<Opened, StartError> {
    let privileged = rules::needed(config);
    if privileged && !CAPABILITIES.iter().all(|c| caps::has(*c)) {
        return Err(RulesError::Capability.into());
    }
    // A refusal only means that fewer connections fit.
    let _ = caps::raise_file_limit();
    // Programs we start would not inherit capabilities that our file gave us. Root hands its own on anyway.
    let starts_programs = privileged || config.serial.is_some() && caps::has(caps::NET_ADMIN);
    if starts_programs && !wavelane_host::is_root() {
        caps::pass_on(&CAPABILITIES)
            .map_err(|source| StartError::System { what: "passing on capabilities", source })?;
    }
    if !privileged {
        return open_all(config, None, appended);
    }
    let lock = rules::claim()?;
    rules::close(config).map_err(RulesError::Tool)?;
    let opened = device::close(config).map_err(DeviceError::from).map_err(StartError::from);
    opened.and_then(|()| open_all(config, Some(lock), appended)).map_err(|why| closed(config, why))
}

/// A refusal after new connections began to be refused, if they are.
pub(crate) fn closed(config: &Config, why: StartError) -> StartError {
    if !config.is_closed() {
        return why;
    }
    StartError::Closed { why: Box::new(why), lift: rules::lift_closed(config) }
}

/// Opens a lane's own socket; `None` if its device or its local address is not there yet.
pub(crate) fn open_lane_if_there(socket: &LaneSocket, mark: Option<u32>) -> Result<Option<Port>, StartError> {
    if socket.device.is_some() && socket.device_identity().is_none() {
        return Ok(None);
    }
    match (socket.medium.row().open)(socket, mark) {
        Ok(medium) => Ok(Some(medium)),
        Err(why) if socket.own_address().is_some() && lacks_address(&why) => Ok(None),
        Err(source) => Err(match &socket.device {
            _ if socket.mark.is_some() && source.kind() == ErrorKind::PermissionDenied => StartError::Mark { source },
            Some(device) => StartError::Device { device: device.clone(), source },
            None => port_error("UDP port", socket.local)(source),
        }),
    }
}

/// Opens the socket of `listen`.
pub(crate) fn listen(config: &Config, mark: Option<u32>) -> io::Result<Port> {
    Ok(Box::new(UdpLane::bind(config.listen, mark, None)?))
}

/// Whether a socket was refused because its address is not this machine's.
pub(crate) fn lacks_address(error: &io::Error) -> bool {
    error.kind() == ErrorKind::AddrNotAvailable
}

/// Whether a port is refused because somebody has it.
pub(crate) fn is_taken(why: &io::Error) -> bool {
    matches!(why.kind(), ErrorKind::AddrInUse | ErrorKind::ResourceBusy)
}

/// Opens it. `lock` is there if this daemon is the one that takes traffic in this network namespace.
fn open_all(config: &Config, lock: Option<Claim>, appended: &[&Path]) -> Result<Opened, StartError> {
    KeyLog::check(appended, config)?;
    let mark = lock.is_some().then_some(MARK_OWN);
    let mut remarks = Vec::new();
    let listen = match listen(config, mark) {
        Ok(medium) => Some(medium),
        // At boot an address may come later, and IPv6 first asks whether another host has it.
        Err(why) if lacks_address(&why) => {
            remarks.push(format!(
                "warning: address {} is not this machine's now, so nothing is heard or sent by `listen`: it is used as soon as it is there",
                config.listen.ip()
            ));
            None
        }
        Err(why) => return Err(port_error("UDP port", config.listen)(why)),
    };
    let mut lanes = vec![listen];
    for socket in config.lane_sockets() {
        lanes.push(open_lane_if_there(&socket, mark)?);
    }
    let control = Control::bind(&config.control)?;
    let metrics = config.metrics.map(|at| metrics::Place::open(at).map_err(port_error("TCP port", at))).transpose()?;
    remarks.extend(metrics.as_ref().and_then(metrics::Place::remark));
    let mut forwards = Vec::new();
    for forward in &config.forwards {
        forwards.push(tcp::listen(forward.listen).map_err(port_error("TCP port", forward.listen))?);
    }
    let (transparent, rules) =
        lock.map(|lock| transparent(config, lock, tcp::Buffers::default(), &mut remarks)).transpose()?.unzip();
    // After the rules: they tell whether another daemon is here, whose device this would tear down.
    let (tun, ways) = match (&config.tun, &config.intercept) {
        (Some(tun), Some(intercept)) => Some(Ways::open(config, tun, intercept)?),
        _ => {
            // An earlier process may have had a device, and left routes that refuse what went there.
            rules.iter().for_each(|_| device::clear());
            None
        }
    }
    .unzip();
    let installed = rules.map(|rules| Installed { rules, ways });
    let line = config.serial.as_ref().map(LineDevice::open).transpose();
    let line = line.map_err(|why| StartError::Door(why.to_string()))?;
    Ok(Opened { lanes, control, metrics, forwards, transparent, installed, tun, line, mark, remarks })
}

/// Opens the transparent door and sets its rules.
pub(crate) fn transparent(
    config: &Config,
    lock: Claim,
    buffers: tcp::Buffers,
    remarks: &mut Vec<String>,
) -> Result<(Transparent, Rules), StartError> {
    remarks.extend(lock.remark.clone());
    // A namespace's loopback may be down; without it nothing can be delivered locally.
    nft::run("ip", &["link", "set", "lo", "up"], "").map_err(RulesError::Tool)?;
    let ip6 = has_ipv6();
    if !ip6 && config.peers.iter().any(|p| p.routes.iter().any(|r| r.address.is_ipv6())) {
        return Err(RulesError::NoIpv6.into());
    }
    let localhost = [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()];
    let (mut listeners, mut ports) = (Vec::new(), Vec::new());
    for ip in localhost.into_iter().take(1 + usize::from(ip6)) {
        let listener = tcp::listen_transparent((ip, 0).into(), MARK_OWN, buffers).map_err(RulesError::Listener)?;
        ports.push(listener.local_addr().map_err(RulesError::Listener)?.port());
        listeners.push(listener);
    }
    let raw = RawSender::open(MARK_OWN).map_err(RulesError::Listener)?;
    // The queue before its rule: a rule without a listener lets SYNs pass, and they would be answered unheld.
    let queue = match config.intercept.is_some().then(|| NfQueue::bind(NUMBER)).transpose() {
        Ok(queue) => queue,
        Err(e) => {
            remarks.push(format!("warning: no NFQUEUE {NUMBER} here ({e}): load nfnetlink_queue, or free that queue"));
            None
        }
    };
    let (rules, no_queue) = Rules::install(config, &ports, queue.is_some(), lock)?;
    if let Some(e) = no_queue {
        remarks.push(format!("warning: cannot hold SYNs: {e}"));
    }
    if config.intercept.is_some() && !rules.holds_syns() {
        remarks.push(
            "warning: connections are answered before the far server has answered (install iptables and load xt_NFQUEUE to be honest)".into(),
        );
    }
    remarks.push(format!("delivering by firewall mark {MARK_DIVERT:#x} and routing table {NUMBER}"));
    let queue = queue.filter(|_| rules.holds_syns());
    Ok((Transparent { listeners, queue, raw }, rules))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_device_comes_with_its_own_remedy() {
        let text =
            |code| StartError::Device { device: "d0".into(), source: io::Error::from_raw_os_error(code) }.to_string();
        // EAFNOSUPPORT, EPERM, ENODEV, EADDRINUSE
        for (code, remedy) in [(97, "add AF_PACKET"), (1, "(CAP_NET_RAW)"), (19, "whether it exists"), (98, "`local`")]
        {
            let text = text(code);
            assert!(text.contains("device 'd0'") && text.contains(remedy), "{text}");
            assert_eq!(text.contains("CAP_NET_RAW"), code == 1, "{text}");
        }
    }
}
