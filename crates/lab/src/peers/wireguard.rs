//! WireGuard in user space, by boringtun or wireguard-go, with TCP end to end inside the tunnel.

use super::{Site, wait_for};
use crate::LabError;
use crate::folder::{Folder, alive};
use crate::program::Program as Running;
use crate::tools::{self, output};
use std::path::{Path, PathBuf};
use std::process::Command;
use wavelane_base::Span;
use wavelane_scenario::{Family, NodeKind, Stack};

const INSTALL_BORINGTUN: &str = "install boringtun-cli (cargo install boringtun-cli --locked)";
const INSTALL_WG: &str = "install wireguard-tools (apt install wireguard-tools)";
const INSTALL_WIREGUARD_GO: &str =
    "build it (go install golang.zx2c4.com/wireguard@latest; the program is then called wireguard)";

/// The program at both ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Program {
    Boringtun,
    WireguardGo,
}

impl Program {
    /// The program of a stack that is no other peer.
    pub(super) fn of(stack: Stack) -> Self {
        if stack.family == Family::WireguardGo { Self::WireguardGo } else { Self::Boringtun }
    }
    /// The command that runs the interface `name`, if it is installed.
    fn command(self, name: &str) -> Option<Command> {
        // `go install` names it after the folder of its source, packages after what it is.
        let (programs, options): (&[&str], &[&str]) = match self {
            Self::Boringtun => (&["boringtun-cli"], &["--foreground", "--disable-drop-privileges"]),
            Self::WireguardGo => (&["wireguard-go", "wireguard"], &["--foreground"]),
        };
        let mut command = tools::command(programs.iter().find_map(|program| tools::find(program))?);
        command.args(options).arg(name);
        Some(command)
    }
    fn word(self) -> &'static str {
        match self {
            Self::Boringtun => "boringtun",
            Self::WireguardGo => "wireguard-go",
        }
    }
    fn remedy(self) -> &'static str {
        match self {
            Self::Boringtun => INSTALL_BORINGTUN,
            Self::WireguardGo => INSTALL_WIREGUARD_GO,
        }
    }
    /// Whether all that it takes is installed; if not, what is missing, with the remedy.
    pub(super) fn installed(self) -> Result<(), String> {
        match self.command("none") {
            Some(_) => super::installed(&[("wg", INSTALL_WG)]),
            None => Err(format!("the program {} is missing: {}", self.word(), self.remedy())),
        }
    }
}
/// The tunnel MTU that wg-quick(8) sets over Ethernet: 1500 less 80.
const MTU: u32 = 1420;
/// WireGuard's usual port.
const PORT: u16 = 51_820;
/// The tunnel's own network, outside the laboratory's address plan.
const INSIDE: [&str; 2] = ["10.78.0.1/30", "10.78.0.2/30"];
/// Folder of the program's configuration socket.
const SOCKETS: &str = "/var/run/wireguard";
/// Prefix of this program's interface names, followed by the owner's process id and a letter.
const PREFIX: &str = "wlt";
/// Time limit for the programs and their handshake; WireGuard repeats a lost handshake after 5 s (its white paper, section 6.4).
const READY_WITHIN: Span = Span::from_secs(40);

/// Files that a running tunnel leaves in the file system, removed on drop.
pub(super) struct Wireguard {
    names: [String; 2],
    _keys: Folder,
}

impl Wireguard {
    /// Starts both ends, configures them and waits for their handshake.
    pub(super) fn start(
        site: &Site<'_>,
        program: Program,
        programs: &mut Vec<Running>,
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<Self, LabError> {
        sweep();
        let names = ["a", "b"].map(|end| format!("{PREFIX}{}{end}", std::process::id()));
        let tunnel = Self { names, _keys: Folder::new()? };
        for (gateway, name) in site.pair.into_iter().zip(&tunnel.names) {
            let command = program.command(name).unwrap_or_else(|| Command::new(program.word()));
            programs.push(site.start(gateway, program.word(), command, program.remedy())?);
        }
        wait_for("the tunnel did not open its socket", READY_WITHIN, programs, stop, &mut || {
            Ok(tunnel.names.iter().all(|name| socket_of(name).exists()))
        })?;
        let mut keys = Vec::new();
        for (gateway, name) in site.pair.into_iter().zip(&tunnel.names) {
            keys.push(tunnel.own_key(site, gateway, name)?);
        }
        for (end, gateway) in site.pair.into_iter().enumerate() {
            let (name, other) = (&tunnel.names[end], site.other(gateway));
            let endpoint = format!("{}:{PORT}", site.outside(other));
            let peer = ["set", name, "peer", &keys[1 - end], "endpoint", &endpoint, "allowed-ips", "0.0.0.0/0"];
            // With something to send every second, the handshake does not wait for traffic. A keepalive is 60 bytes when idle, and the
            // program does not accept a later change of it.
            wg(site, gateway, &[&peer[..], &["persistent-keepalive", "1"]].concat())?;
            route(site, gateway, name, INSIDE[end])?;
        }
        wait_for("the tunnel's handshake did not end", READY_WITHIN, programs, stop, &mut || {
            for (gateway, name) in site.pair.into_iter().zip(&tunnel.names) {
                let printed = wg(site, gateway, &["show", name, "latest-handshakes"])?;
                let moment = printed.split_whitespace().nth(1).and_then(|n| n.parse::<u64>().ok());
                if moment.is_none_or(|seconds| seconds == 0) {
                    return Ok(false);
                }
            }
            Ok(true)
        })?;
        clamp(site)?;
        Ok(tunnel)
    }

    /// Creates a private key, configures it at one end and returns its public key.
    fn own_key(&self, site: &Site<'_>, gateway: usize, name: &str) -> Result<String, LabError> {
        let file = self._keys.path().join(name);
        std::fs::write(&file, wg(site, gateway, &["genkey"])?)
            .map_err(LabError::io(format!("cannot write {}", file.display())))?;
        let (path, port) = (file.display().to_string(), PORT.to_string());
        wg(site, gateway, &["set", name, "private-key", &path, "listen-port", &port])?;
        let mut command = tools::command("wg");
        let key = std::fs::File::open(&file).map_err(LabError::io(format!("cannot read {}", file.display())))?;
        command.arg("pubkey").stdin(key);
        let printed = output(&site.world.nodes[gateway], command, INSTALL_WG)?.stdout;
        Ok(String::from_utf8_lossy(&printed).trim().to_owned())
    }
}

impl Drop for Wireguard {
    fn drop(&mut self) {
        for name in &self.names {
            // The program removes it on an orderly exit.
            let _ = std::fs::remove_file(socket_of(name));
        }
    }
}

fn socket_of(name: &str) -> PathBuf {
    Path::new(SOCKETS).join(format!("{name}.sock"))
}

/// Removes sockets of processes that were killed before their clean-up.
fn sweep() {
    for entry in std::fs::read_dir(SOCKETS).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let number = name.strip_prefix(PREFIX).map(|rest| rest.trim_end_matches(|c: char| !c.is_ascii_digit()));
        if number.and_then(|n| n.parse().ok()).is_some_and(|pid| !alive(pid)) {
            // Another run may be removing it too.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Runs `wg` on a gateway and returns what it printed.
fn wg(site: &Site<'_>, gateway: usize, arguments: &[&str]) -> Result<String, LabError> {
    let mut command: Command = tools::command("wg");
    command.args(arguments);
    let printed = output(&site.world.nodes[gateway], command, INSTALL_WG)?.stdout;
    Ok(String::from_utf8_lossy(&printed).into_owned())
}

/// Brings one end up and routes everything behind the other gateway through it.
fn route(site: &Site<'_>, gateway: usize, name: &str, inside: &str) -> Result<(), LabError> {
    let mut lines = vec![format!("addr add {inside} dev {name}"), format!("link set {name} mtu {MTU} up")];
    let theirs = site.outside(site.other(gateway));
    for route in site.world.plan.routes[gateway].iter().filter(|r| r.via == theirs) {
        lines.push(format!("route replace {} dev {name} congctl {}", route.prefix, site.controls[gateway]));
    }
    tools::ip(&site.world.nodes[gateway], &lines)
}

/// Sets the tunnel's MTU at the endpoints, as a configured router would by clamping MSS: their first segments fit.
fn clamp(site: &Site<'_>) -> Result<(), LabError> {
    for (node, routes) in site.world.plan.routes.iter().enumerate() {
        if site.scenario.nodes[node].kind != NodeKind::Endpoint {
            continue;
        }
        let line = |r: &crate::topology::Route| {
            let (prefix, via, dev) = (&r.prefix, r.via, &r.interface);
            format!("route replace {prefix} via {via} dev {dev} congctl {} mtu {MTU}", site.controls[node])
        };
        tools::ip(&site.world.nodes[node], &routes.iter().map(line).collect::<Vec<_>>())?;
    }
    Ok(())
}
