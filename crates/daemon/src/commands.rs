//! The operator's commands around a gateway, as the `wavelane` program offers them.
//!
//! Each returns the text for standard output; each error is one line and means exit code 2.

mod ask;
mod flags;
mod lanes;
mod nat;
mod netcheck;
mod notes;
mod one_way;
mod ping;
mod proxies;
mod reload;
mod unbindable;
mod with;

use crate::config::{self, Config, ConfigError};
use crate::keys::{self, KeyError};
use crate::system::firewall;
use crate::system::rules::left_closed;
use crate::{load, proxy, shaper, status};
use notes::{Place, foreign_files, notes, unforwarded, unreachable};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{ErrorKind, Read, Write as _};
use std::net::Shutdown;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use wavelane_host::files;
use wavelane_settings::{NAME_MAX, is_name};

/// Exit code of every refused command.
pub const EXIT_REFUSED: u8 = 2;
/// How long `status` waits for the daemon.
const STATUS_PATIENCE: Duration = Duration::from_secs(5);
/// The word of `init` for a side that no peer may reach.
const SERVES_NONE: &str = "none";
/// No status document is longer.
const STATUS_MAX: u64 = 16 << 20;
/// Characters shown of one text in it.
const TEXT_SHOWN: usize = 1_024;

/// Why a command was refused.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// No daemon answers at the control socket.
    #[error("no wavelaned answers at {path} ({source}): start it, name its socket with --control, or run as its user")]
    NoDaemon {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A daemon is there, and has not answered.
    #[error(
        "the wavelaned at {0} is there and does not answer yet: it is starting, ending or very busy; try again, or look at its log"
    )]
    NotYet(PathBuf),
    /// The daemon's answer makes no sense.
    #[error("the answer from {0} is not a status document: is the other end a wavelaned of this version?")]
    StrangeAnswer(PathBuf),
    /// It is a proxy's daemon, and the command is about peers or trials.
    #[error(
        "{0} is the socket of a proxy, which has no peers, and no `reload --confirm`: `wavelane status` and `wavelane top` show what it does, SIGHUP (`systemctl reload`) has it read its file again"
    )]
    OfProxy(PathBuf),
    /// It shapes, and is asked nothing.
    #[error(
        "no gateway or proxy runs here, but a shaper, which has no control socket: its log says what it does (with `log = \"debug\"` each change of its rate), and SIGHUP (`systemctl reload`) has it read `log` in its file again; for its tables restart it"
    )]
    OfShaper,
    /// A file cannot be written.
    #[error("cannot write {path}: {source}; choose another --dir or remove the old file")]
    Unwritable {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A name that is none.
    #[error(
        "--{flag} '{name}' is no name: use letters, digits, '-', '_' and '.', {NAME_MAX} at most, such as \"ship\""
    )]
    Name {
        /// Which argument.
        flag: &'static str,
        /// As it was given.
        name: String,
    },
    /// No public key.
    #[error(
        "--peer-key '{0}' is not a public key: give the {KEY_TEXT} characters of base64 that `wavelane init` or `wavelane keygen` printed at the other gateway"
    )]
    PeerKey(String),
    /// Nothing says what the peer may reach.
    #[error(
        "say what the other gateway may reach here: --serves PREFIX for each network on this side (such as 10.3.0.0/24), --allow-target PREFIX for less, or --serves none"
    )]
    NothingServed,
    /// What a flag says makes no sense.
    #[error("{0}")]
    Flag(String),
    /// Nothing leads traffic to the TUN device.
    #[error(
        "--tun carries nothing by itself: add --interface NAME for what arrives there, or --local for what is born here"
    )]
    NothingLed,
    /// Traffic is to be taken, and nothing says for which networks.
    #[error(
        "{0} takes what goes to the networks behind the other gateway: name each with --route PREFIX (such as 10.3.0.0/24)"
    )]
    NothingRouted(&'static str),
    /// A proxy that would take nothing.
    #[error("--proxy splits what arrives by an interface: name each with --interface NAME (see `ip link`)")]
    ProxyOfNothing,
    /// The cure for a long queue.
    #[error("{0}")]
    Cure(String),
    /// No such peer.
    #[error("no peer is called '{name}': there is {names}")]
    NoPeer {
        /// As it was given.
        name: String,
        /// Those there are.
        names: String,
    },
    /// The daemon refused what it was asked.
    #[error("{0}")]
    Refused(String),
    /// A control socket must be named.
    #[error("{0} with --control PATH")]
    WhichGateway(String),
}

pub use netcheck::{Netcheck, NetcheckArgs, netcheck};
pub use ping::{LanePings, PING_FORMAT, PingArgs, Pings, ping};
pub use reload::{ReloadArgs, reload};
pub use wavelane_host::streams::stdout_was_closed;
pub use with::check_with;

/// `wavelane keygen`.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct KeygenArgs {
    /// Write the private key to this new file (mode 0600) and print the public key; without it, print both.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// `wavelane init`.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct InitArgs {
    /// This gateway's name.
    #[arg(long)]
    pub name: String,
    /// Make a split proxy, which needs no other gateway: TCP that arrives by each --interface, to each --route or everywhere, is
    /// ended here and goes on as another connection.
    #[arg(
        long,
        conflicts_with_all = [
            "key", "listen", "peer_name", "peer_key", "peer_address", "lanes", "serves", "allow_targets", "local",
            "tun", "tun_addresses", "forwards", "source"
        ]
    )]
    pub proxy: bool,
    /// Where to write wavelaned.toml.
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    /// This gateway's private key file; it is made if it is not there, and that is said. Default: NAME.key in DIR.
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// UDP address to listen on.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "0.0.0.0:4780")]
    pub listen: String,
    /// The other gateway's name.
    #[arg(long, value_name = "NAME", required_unless_present = "proxy", default_value = "", hide_default_value = true)]
    pub peer_name: String,
    /// The other gateway's public key, as its `wavelane keygen` printed it.
    #[arg(
        long,
        value_name = "BASE64",
        required_unless_present = "proxy",
        default_value = "",
        hide_default_value = true
    )]
    pub peer_key: String,
    /// Where to reach the other gateway; leave it out if that one calls us.
    #[arg(long, value_name = "HOST:PORT")]
    pub peer_address: Option<String>,
    /// In place of --peer-address, one of several ways to the other gateway or from it; may be repeated. Without HOST:PORT
    /// that one calls us by it.
    #[arg(long = "lane", value_name = flags::LANE_WORD)]
    pub lanes: Vec<String>,
    /// A network behind the other gateway; may be repeated.
    #[arg(long = "route", value_name = "PREFIX")]
    pub routes: Vec<String>,
    /// A network on this side, which the other gateway may reach through us; may be repeated. "none" if it may reach
    /// nothing.
    #[arg(long = "serves", value_name = "PREFIX")]
    pub serves: Vec<String>,
    /// What the other gateway may reach through us, if not just what --serves says; may be repeated.
    #[arg(long = "allow-target", value_name = "PREFIX")]
    pub allow_targets: Vec<String>,
    /// Intercept TCP that arrives on this interface; may be repeated. Needs root.
    #[arg(long = "interface", value_name = "NAME")]
    pub interfaces: Vec<String>,
    /// Intercept TCP that originates on this host too. Needs root.
    #[arg(long)]
    pub local: bool,
    /// Carry what is not TCP too (UDP, ping, everything), through a TUN device. Both gateways need it, and each needs
    /// an --interface or --local and a --route to the other's networks.
    #[arg(long)]
    pub tun: bool,
    /// This host's address on the TUN device, such as 10.9.0.1/24; may be repeated. Implies --tun.
    #[arg(long = "tun-address", value_name = "ADDRESS/BITS")]
    pub tun_addresses: Vec<String>,
    /// A plain forward, no root needed: what connects to the first address reaches the second from the other gateway.
    #[arg(long = "forward", value_name = "LISTEN=TO")]
    pub forwards: Vec<String>,
    /// Connect from the applications' own addresses ("keep") or from ours ("own"). Default: "keep" if traffic is
    /// intercepted with --interface or --local, else "own".
    #[arg(long, value_name = "keep|own")]
    pub source: Option<String>,
    /// Traffic to be intercepted, after a crash or while its peer is down: "open" forwards it plainly, "closed" refuses it.
    #[arg(long, value_name = "open|closed", default_value = "open")]
    pub on_failure: String,
    /// The control socket; by default one in the system's folder for such things.
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
}

/// `wavelane status`.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct StatusArgs {
    /// Print the daemon's own JSON document.
    #[arg(long, conflicts_with = "watch")]
    pub json: bool,
    /// Go on showing it, as `wavelane top` does.
    #[arg(long)]
    pub watch: bool,
    /// The daemon's control socket; by default the only one in the usual place.
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
}

impl CommandError {
    /// Why nothing came from the control socket at `path`.
    fn no_daemon(path: &Path, source: std::io::Error) -> Self {
        let path = path.to_path_buf();
        match source.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => Self::NotYet(path),
            _ => Self::NoDaemon { path, source },
        }
    }
}

/// Makes a key pair.
pub fn keygen(args: &KeygenArgs) -> Result<String, CommandError> {
    let private = keys::generate()?;
    let public = keys::to_base64(&keys::public_key(&private));
    match &args.out {
        Some(path) => {
            // As `init` does for its folder: on a new gateway /etc/wavelane does not exist yet.
            if let Some(folder) = path.parent().filter(|f| !f.as_os_str().is_empty()) {
                std::fs::create_dir_all(folder).map_err(|source| KeyError::Io { path: path.clone(), source })?;
            }
            keys::write_key(path, &private)?;
            Ok(format!("{public}\n"))
        }
        None => Ok(format!("private {}\npublic  {public}\n", keys::to_base64(&private))),
    }
}

/// What `init` made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Initialised {
    /// The configuration file.
    pub config: PathBuf,
    /// Our public key, in base64, for the other gateway.
    pub public_key: String,
    /// The file of our private key.
    pub key: PathBuf,
    /// There was no such file, and it was made.
    pub made_key: bool,
    /// What the operator may have overlooked, each in one line.
    pub notes: Vec<String>,
}

impl std::fmt::Display for Initialised {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let how = if self.made_key { "made the new key" } else { "took the key that was there," };
        writeln!(f, "wrote {}", self.config.display())?;
        if self.public_key.is_empty() {
            // A proxy's.
            return writeln!(f, "start it with: wavelaned --config {}", self.config.display());
        }
        writeln!(f, "{how} {}", self.key.display())?;
        writeln!(f, "public key {} (the other gateway needs it)", self.public_key)?;
        self.notes.iter().try_for_each(|note| writeln!(f, "note: {note}"))?;
        writeln!(f, "start it with: wavelaned --config {}", self.config.display())
    }
}

/// Characters of a key in base64.
const KEY_TEXT: usize = keys::KEY_LEN.div_ceil(3) * 4;

fn unwritable(path: &Path) -> impl FnOnce(std::io::Error) -> CommandError {
    let path = path.to_path_buf();
    move |source| CommandError::Unwritable { path, source }
}

/// Writes a ready configuration, and a key unless `DIR/NAME.key` exists. Nothing about the link goes into it.
pub fn init(args: &InitArgs) -> Result<Initialised, CommandError> {
    // The file's own checks would name its keys, which a user of flags has not seen.
    let serves: Vec<String> = args.serves.iter().filter(|text| *text != SERVES_NONE).cloned().collect();
    for (flag, texts) in [("--route", &args.routes), ("--serves", &serves), ("--allow-target", &args.allow_targets)] {
        config::addresses::prefixes(flag, texts)?;
    }
    if args.proxy {
        return proxies::init(args);
    }
    if keys::key_from_base64(&args.peer_key).is_none() {
        return Err(CommandError::PeerKey(args.peer_key.clone()));
    }
    if args.serves.is_empty() && args.allow_targets.is_empty() {
        return Err(CommandError::NothingServed);
    }
    if has_tun(args) && !intercepts(args) {
        return Err(CommandError::NothingLed);
    }
    if intercepts(args) && args.routes.is_empty() {
        return Err(CommandError::NothingRouted(if args.interfaces.is_empty() { "--local" } else { "--interface" }));
    }
    flags::check(args)?;
    for (flag, name) in [("name", &args.name), ("peer-name", &args.peer_name)] {
        if !is_name(name) {
            return Err(CommandError::Name { flag, name: wavelane_base::text::line(name, NAME_MAX).into_owned() });
        }
    }
    let missing = missing_folders(&args.dir);
    let made = init_in_folder(args);
    if made.is_err() {
        remove_empty(&missing);
    }
    made
}

/// The folders that `create_dir_all` makes for `path`, the innermost first.
fn missing_folders(path: &Path) -> Vec<PathBuf> {
    path.ancestors().take_while(|p| !p.as_os_str().is_empty() && !p.exists()).map(Path::to_path_buf).collect()
}

/// Removes the folders that a refused `init` made. A folder that holds something by now belongs to somebody else.
fn remove_empty(folders: &[PathBuf]) {
    for folder in folders {
        let _ = std::fs::remove_dir(folder);
    }
}

fn intercepts(args: &InitArgs) -> bool {
    args.local || !args.interfaces.is_empty()
}

fn has_tun(args: &InitArgs) -> bool {
    args.tun || !args.tun_addresses.is_empty()
}

fn init_in_folder(args: &InitArgs) -> Result<Initialised, CommandError> {
    std::fs::create_dir_all(&args.dir).map_err(unwritable(&args.dir))?;
    let key = match &args.key {
        // Relative key paths in the file count from the file's folder.
        Some(path) => std::path::absolute(path).map_err(unwritable(path))?,
        None => args.dir.join(format!("{}.key", args.name)),
    };
    let config = args.dir.join("wavelaned.toml");
    // The lock: while this file exists, no other program creates, uses or removes a key in the folder.
    let mut file = File::create_new(&config).map_err(unwritable(&config))?;
    let made = fill(args, &mut file, &config, &key);
    if made.is_err() {
        let _ = std::fs::remove_file(&config);
    }
    made
}

/// Writes the configuration into its new file, and the key unless there is one. If that is refused no new key stays behind:
/// a later attempt would take it for its owner's.
fn fill(args: &InitArgs, file: &mut File, config: &Path, key: &Path) -> Result<Initialised, CommandError> {
    let text = config_text(args)?;
    let made_key = !key.exists();
    let missing = key.parent().map(missing_folders).unwrap_or_default();
    let private = if made_key { keys::generate()? } else { keys::read_key(key)? };
    if made_key {
        if let Some(folder) = key.parent() {
            std::fs::create_dir_all(folder).map_err(unwritable(key))?;
        }
        keys::write_key(key, &private).inspect_err(|_| remove_empty(&missing))?;
    }
    let parsed = Config::parse(&text, "the new configuration", &args.dir).map_err(|why| flags::named(why, args));
    let parsed = parsed.and_then(|parsed| file.write_all(text.as_bytes()).map(|()| parsed).map_err(unwritable(config)));
    if parsed.is_err() && made_key {
        let _ = std::fs::remove_file(key);
        remove_empty(&missing);
    }
    let notes = notes(&parsed?);
    let public_key = keys::to_base64(&keys::public_key(&private));
    Ok(Initialised { config: config.into(), public_key, key: key.into(), made_key, notes })
}

fn config_text(args: &InitArgs) -> Result<String, CommandError> {
    let quote = |text: &str| toml::Value::String(text.into()).to_string();
    let list = |items: &[String]| format!("[{}]", items.iter().map(|i| quote(i)).collect::<Vec<_>>().join(", "));
    let intercepts = intercepts(args);
    let source = args.source.clone().unwrap_or_else(|| if intercepts { "keep" } else { "own" }.into());
    let key = match &args.key {
        Some(path) => std::path::absolute(path).unwrap_or_else(|_| path.clone()).to_string_lossy().into_owned(),
        None => format!("{}.key", args.name),
    };
    let mut lines = vec![
        "[gateway]".to_string(),
        format!("name = {}", quote(&args.name)),
        format!("key = {}", quote(&key)),
        format!("listen = {}", quote(&args.listen)),
        format!("on_failure = {}", quote(&args.on_failure)),
        format!("source = {}", quote(&source)),
    ];
    if !args.serves.is_empty() {
        let none = args.serves == [SERVES_NONE];
        lines.push(format!("serves = {}", if none { "[]".into() } else { list(&args.serves) }));
    }
    if let Some(control) = &args.control {
        lines.push(format!("control = {}", quote(&control.to_string_lossy())));
    }
    lines.extend([
        String::new(),
        "[[peer]]".into(),
        format!("name = {}", quote(&args.peer_name)),
        format!("public_key = {}", quote(&args.peer_key)),
    ]);
    if let Some(address) = &args.peer_address {
        lines.push(format!("address = {}", quote(address)));
    }
    lines.push(format!("routes = {}", list(&args.routes)));
    if !args.allow_targets.is_empty() {
        lines.push(format!("allow_targets = {}", list(&args.allow_targets)));
    }
    for word in &args.lanes {
        lines.extend([String::new(), "[[peer.lane]]".into()]);
        lines.extend(flags::lane_lines(word)?);
    }
    if intercepts {
        lines.extend([
            String::new(),
            "[intercept]".into(),
            format!("interfaces = {}", list(&args.interfaces)),
            format!("local = {}", args.local),
        ]);
    }
    if has_tun(args) {
        lines.extend([String::new(), "[tun]".into(), format!("addresses = {}", list(&args.tun_addresses))]);
    } else if intercepts {
        lines.extend([
            String::new(),
            "# Carries what is not TCP too, once both gateways have it and a route to each other's networks:".into(),
            "# [tun]".into(),
        ]);
    }
    for forward in &args.forwards {
        let (listen, to) = forward.split_once('=').unwrap_or((forward, ""));
        lines.extend([
            String::new(),
            "[[forward]]".into(),
            format!("listen = {}", quote(listen)),
            format!("to = {}", quote(to)),
            format!("via = {}", quote(&args.peer_name)),
        ]);
    }
    Ok(lines.join("\n") + "\n")
}

/// Validates a gateway's configuration without starting it; the text holds a summary and any warnings.
pub fn check_config(path: &Path) -> Result<String, CommandError> {
    if shaper::is_shaper_file(path) {
        return Ok(shaper::check(path)?);
    }
    if proxy::is_proxy_file(path) {
        return Ok(proxy::check(path)?);
    }
    let config = Config::load(path)?;
    let mut text = String::new();
    let mut warned = Vec::new();
    let _ = writeln!(text, "public key {}", keys::to_base64(&keys::public_key(&config.private_key)));
    let mut reached = crate::peer_addresses::last(&config);
    for peer in &config.peers {
        let Place { words, remark, hosts } = Place::of(peer, config.listen);
        reached.extend(hosts);
        let routes: Vec<String> = peer.routes.iter().map(config::prefix_text).collect();
        let routes = if routes.is_empty() { "none".to_string() } else { routes.join(", ") };
        let _ = writeln!(text, "peer {} {words}, routes {routes}", peer.name);
        text += &lanes::list(peer, config.listen);
        if let Some(remark) = remark {
            warned.push(format!("peer '{}': {remark}", peer.name));
        }
    }
    if let Some(tun) = &config.tun {
        let _ = writeln!(text, "what is not split TCP goes through {} (MTU {})", tun.name, tun.mtu);
    }
    if let Some(line) = &config.serial {
        let _ = writeln!(text, "IP by {} ({}) through {}", line.device, line.line.words(), line.name);
    }
    if let Some(mechanisms) = config.mechanisms_text() {
        let _ = writeln!(text, "{mechanisms}");
    }
    for note in notes(&config) {
        let _ = writeln!(text, "note: {note}");
    }
    let others = firewall::findings(&config, &reached)
        .into_iter()
        .chain(unbindable::findings(&config))
        .chain(foreign_files(&config));
    warned.extend(warnings(&config).into_iter().chain(others).chain(left_closed()));
    warned.extend(firewall::linked(&config, &reached));
    Ok(checked(path, &format!("gateway '{}' is", config.name), text, &warned))
}

/// What `check` says of a file: whether it is in order, what it holds, and the warnings, which the first line counts.
pub(crate) fn checked(file: &Path, what: &str, text: String, warnings: &[String]) -> String {
    let file = file.display();
    let mut all = match warnings.len() {
        0 => format!("{file}: {what} in order\n"),
        1 => format!("{file}: {what} in order as a file; there is a warning below\n"),
        n => format!("{file}: {what} in order as a file; there are {n} warnings below\n"),
    };
    all += &text;
    for warning in warnings {
        let _ = writeln!(all, "warning: {warning}");
    }
    all
}

/// What works, but perhaps not as the operator expects. It starts no other program: the packet thread asks, too.
pub fn warnings(config: &Config) -> Vec<String> {
    let mut warnings = unreachable(config);
    warnings.extend(unforwarded(config));
    warnings.extend(one_way::filtered_here(config));
    if let Some(line) = config.serial.as_ref().filter(|line| wavelane_host::tty::identity(&line.device).is_none()) {
        warnings.push(format!("port {} of [serial] is not there yet: nothing passes before it is", line.device));
    }
    for socket in config.lane_sockets() {
        if let (Some(device), None) = (&socket.device, socket.device_identity()) {
            warnings.push(format!(
                "device {device} of a lane does not exist here yet: the lane carries nothing before it does"
            ));
        }
    }
    let (flows, sockets) = (config.knobs.flows_max.unwrap_or(0), crate::memory::sockets_max());
    if flows > sockets {
        warnings.push(format!(
            "gateway.flows_max = {flows}, but this process may open files for {sockets} connections only: raise its limit (LimitNOFILE in the unit, `ulimit -Hn`), or lower flows_max"
        ));
    }
    warnings.extend(lanes::warnings(config));
    for socket in config.lane_sockets() {
        let Some(local) = socket.own_address() else { continue };
        if !wavelane_host::udp::is_own(local, socket.device.as_deref()) {
            warnings.push(format!(
                "local address {} of a lane is not this machine's yet: the lane carries nothing before it is",
                local.ip()
            ));
        }
    }
    let mut obstacles: Vec<&str> =
        config.lane_sockets().iter().filter_map(|socket| (socket.medium.row().obstacle)()).collect();
    obstacles.dedup();
    warnings.extend(obstacles.into_iter().map(str::to_owned));
    if let Some(at) = config.metrics.filter(|at| !at.ip().is_loopback()) {
        warnings.push(format!(
            "gateway.metrics = \"{at}\" tells whoever reaches that address who talks to whom here, unencrypted: listen on 127.0.0.1:{} and fetch through a tunnel, or filter it",
            at.port()
        ));
    }
    warnings
}

/// Asks the running daemon for its status.
pub fn status(args: &StatusArgs) -> Result<String, CommandError> {
    let (path, text) = document(args.control.as_deref())?;
    let shown = match proxy_report(&text) {
        Some(report) => report.to_string(),
        None => read_report(&path, &text)?.to_string(),
    };
    Ok(if args.json { text } else { shown })
}

/// The status document of the daemon with this control socket, or of the only one here: as it came, and read.
pub fn report(control: Option<&Path>) -> Result<(String, status::Report), CommandError> {
    let (path, text) = document(control)?;
    let report = read_report(&path, &text)?;
    Ok((text, report))
}

/// What a daemon says of itself.
#[derive(Debug)]
pub enum Seen {
    /// A gateway's.
    Gateway(Box<status::Report>),
    /// A proxy's.
    Proxy(Box<proxy::status::Report>),
}

/// What the daemon with this control socket says, or the only one here.
pub fn seen(control: Option<&Path>) -> Result<Seen, CommandError> {
    let (path, text) = document(control)?;
    match proxy_report(&text) {
        Some(report) => Ok(Seen::Proxy(Box::new(report))),
        None => read_report(&path, &text).map(|report| Seen::Gateway(Box::new(report))),
    }
}

/// A document as people read it: whoever holds the socket writes no line of its own and none without an end.
fn readable<T: serde::de::DeserializeOwned>(text: &str) -> Option<T> {
    fn each(value: &mut serde_json::Value) {
        match value {
            serde_json::Value::String(text) => *text = wavelane_base::text::line(text, TEXT_SHOWN).into_owned(),
            serde_json::Value::Array(all) => all.iter_mut().for_each(each),
            serde_json::Value::Object(all) => {
                let shown =
                    |(key, value): (String, _)| (wavelane_base::text::line(&key, TEXT_SHOWN).into_owned(), value);
                *all = std::mem::take(all).into_iter().map(shown).collect();
                all.values_mut().for_each(each);
            }
            _ => {}
        }
    }
    let mut document = serde_json::from_str(text).ok()?;
    each(&mut document);
    serde_json::from_value(document).ok()
}

fn read_report(path: &Path, text: &str) -> Result<status::Report, CommandError> {
    let known = readable(text).filter(|report: &status::Report| report.format == status::FORMAT);
    known.ok_or_else(|| match proxy_report(text) {
        Some(_) => CommandError::OfProxy(path.to_path_buf()),
        None => CommandError::StrangeAnswer(path.to_path_buf()),
    })
}

/// What a proxy's daemon says of itself.
fn proxy_report(text: &str) -> Option<proxy::status::Report> {
    readable(text).filter(|report: &proxy::status::Report| report.format == proxy::status::FORMAT)
}

/// What the daemon with this control socket answers, or the only one here, with the socket's path.
fn document(control: Option<&Path>) -> Result<(PathBuf, String), CommandError> {
    let path = socket_of(control)?;
    let no_daemon = |source| CommandError::no_daemon(&path, source);
    let stream = UnixStream::connect(&path).map_err(no_daemon)?;
    stream.set_read_timeout(Some(STATUS_PATIENCE)).map_err(no_daemon)?;
    // Nothing is asked but the document. A proxy may have given it already, and ended.
    let _ = stream.shutdown(Shutdown::Write);
    let mut text = String::new();
    stream.take(STATUS_MAX).read_to_string(&mut text).map_err(no_daemon)?;
    Ok((path, text))
}

/// The control socket that was named, or the only one here.
fn socket_of(control: Option<&Path>) -> Result<PathBuf, CommandError> {
    control.map_or_else(find_control, |path| Ok(path.to_path_buf()))
}

/// The only control socket in the usual folder.
fn find_control() -> Result<PathBuf, CommandError> {
    let folder = load::default_control("x").parent().map(Path::to_path_buf).unwrap_or_default();
    let is_ours = |p: &PathBuf| {
        let name = p.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        // In a folder that all may write to, others may have made one.
        let own = || files::is_own(p, FileTypeExt::is_socket);
        name.starts_with("wavelane-") && name.ends_with(".sock") && own()
    };
    let folders = [folder.clone(), PathBuf::from(load::SERVICE_FOLDER)];
    let entries = folders.iter().flat_map(|f| std::fs::read_dir(f).into_iter().flatten().flatten()).map(|e| e.path());
    let mut found: Vec<PathBuf> = entries.filter(is_ours).collect();
    found.sort();
    only_one(&found, &folder, crate::shaper::is_running)
}

/// The one that was found, or why there is no such; `shapes` tells whether a shaper runs here.
fn only_one(found: &[PathBuf], folder: &Path, shapes: fn() -> bool) -> Result<PathBuf, CommandError> {
    match found {
        [one] => Ok(one.clone()),
        [] if shapes() => Err(CommandError::OfShaper),
        [] => Err(CommandError::WhichGateway(format!(
            "no wavelaned runs here (no wavelane-*.sock in {} or {}): start wavelaned, or name its control socket",
            folder.display(),
            load::SERVICE_FOLDER
        ))),
        many => {
            let names: Vec<String> = many.iter().map(|p| p.display().to_string()).collect();
            Err(CommandError::WhichGateway(format!("several gateways run here ({}): name one", names.join(", "))))
        }
    }
}

#[cfg(test)]
#[path = "commands_tests.rs"]
mod tests;
