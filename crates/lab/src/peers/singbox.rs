//! sing-box: its own implementation of the QUIC proxy protocols Hysteria 2 and TUIC version 5. A client at the gateway on the application's
//! side, a server at the other one, and one QUIC connection between them for all traffic.
//!
//! Settings that the files do not name are the program's defaults: receive windows of 8 MiB per stream and 20 MiB per connection, path MTU
//! discovery, a keepalive every 10 s, an idle timeout of 30 s.

use super::forward::{Awaited, Forward, Forwards, all_bound};
use super::{Site, order_of, wait_for};
use crate::LabError;
use crate::folder::Folder;
use crate::program::Program;
use crate::tools;
use serde_json::{Map, Value, json};
use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use wavelane_base::Span;
use wavelane_scenario::{Channel, Direction, Scenario};

const REMEDY: &str = "install sing-box (go install -tags with_quic github.com/sagernet/sing-box/cmd/sing-box@v1.14.1)";
/// Required programs and how to install them.
pub(super) const PROGRAMS: &[(&str, &str)] = &[("sing-box", REMEDY)];
/// The name on the certificate, which the client verifies.
const NAME: &str = "wavelane.invalid";
/// The shared secret of a tunnel that exists only during its run.
const PASSWORD: &str = "wavelane laboratory";
/// TUIC identifies its users by UUID (its version 5, section "Authenticate").
const UUID: &str = "2dd61d93-75d8-4da4-ac0e-6aece7eac365";
/// UDP port of the server.
const TUNNEL_PORT: u16 = 31_000;
/// TCP port at the near gateway by which the lab checks that the tunnel carries data.
const PROOF_PORT: u16 = 19_999;
/// Share of the link's rate that Brutal is configured with: it then leaves room for its own headers, and its compensation for loss (rate
/// over the share that arrives, at most 1.25 times) reaches the link's rate at 10 % loss and not before.
const TOLD: (u64, u64) = (9, 10);
/// Its rates are whole Mbit/s.
const STEP_BPS: u64 = 1_000_000;
/// Time limit for the programs and their handshake: the handshake is repeated after 0.2 s, then doubling (RFC 9002, section 6.2.2).
const READY_WITHIN: Span = Span::from_secs(40);

/// The tunnel protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Tunnel {
    /// Hysteria 2 at a configured rate.
    Hysteria2Brutal,
    /// Hysteria 2 with its BBR.
    Hysteria2Bbr,
    /// TUIC with its BBR.
    TuicBbr,
}

/// The running tunnels.
pub(super) struct Singbox {
    forwards: Forwards,
    /// Configuration, certificate and key.
    _files: Folder,
}

impl Singbox {
    /// Starts a client and a server per direction in which flows are opened, and waits until bytes have crossed.
    pub(super) fn start(
        site: &Site<'_>,
        tunnel: Tunnel,
        servers: &[SocketAddr],
        programs: &mut Vec<Program>,
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<Self, LabError> {
        let forwards = Forwards::of(site, "sing-box", servers)?;
        let files = Folder::new()?;
        let (certificate, key) = certify(site, files.path())?;
        let mut proofs = Vec::new();
        let mut awaited = Vec::new();
        for [near, far] in [site.pair, [site.pair[1], site.pair[0]]] {
            let own: Vec<&Forward> = forwards.iter().filter(|f| f.near == near).collect();
            if own.is_empty() {
                continue;
            }
            let proof = Proof::new(site, near, far)?;
            let outside = SocketAddr::from((site.outside(far), TUNNEL_PORT));
            let tls = json!({ "enabled": true, "alpn": ["h3"], "certificate_path": certificate, "key_path": key });
            let server = server_file(tunnel, outside, tls);
            programs.push(run(site, far, "server", &server, files.path())?);
            awaited.push(Awaited { node: far, protocol: "udp", address: outside });
            let mut entrances: Vec<Value> = own.iter().map(|f| entrance(f.listen, f.target)).collect();
            entrances.push(entrance(proof.listen, proof.target));
            let tls = json!({
                "enabled": true, "alpn": ["h3"], "server_name": NAME, "certificate_path": certificate,
            });
            let channel = &site.scenario.channels[site.wire.channel];
            let rates = directions(channel, site.name(near)).map(|direction| told(channel, direction));
            let client = client_file(tunnel, entrances, outside, tls, rates);
            programs.push(run(site, near, "client", &client, files.path())?);
            let listening = own.iter().map(|f| f.listen).chain([proof.listen]);
            awaited.extend(listening.map(|address| Awaited { node: near, protocol: "tcp", address }));
            proofs.push(proof);
        }
        wait_for("sing-box did not listen", READY_WITHIN, programs, stop, &mut || all_bound(site, &awaited))?;
        wait_for("sing-box's tunnel did not carry", READY_WITHIN, programs, stop, &mut || {
            for proof in &mut proofs {
                if !proof.given(site)? {
                    return Ok(false);
                }
            }
            Ok(true)
        })?;
        Ok(Self { forwards, _files: files })
    }

    /// The forwarded ports.
    pub(super) fn forwards(&self) -> &Forwards {
        &self.forwards
    }
}

/// Whether Brutal can be given the rates it needs; if not, why.
pub(super) fn review_rates(scenario: &Scenario, pair: [usize; 2], channel: &Channel) -> Result<(), String> {
    let nears = scenario.flows.iter().filter_map(|flow| order_of(scenario, pair, flow)).map(|[near, _]| near);
    for near in nears {
        // Without the rate towards the client, the program uses BBR in both directions.
        if told(channel, directions(channel, &scenario.nodes[near].name)[1]).is_none() {
            return Err(format!(
                "it sends at a rate of whole Mbit/s that it is told, and channel {} has none of 1.2 Mbit/s or more \
                 towards {}: use hysteria2-bbr",
                channel.name, scenario.nodes[near].name
            ));
        }
    }
    Ok(())
}

/// The path from the gateway `near` over `channel`, and the return path.
fn directions(channel: &Channel, near: &str) -> [Direction; 2] {
    match channel.between[0] == near {
        true => [Direction::Forward, Direction::Reverse],
        false => [Direction::Reverse, Direction::Forward],
    }
}

/// Brutal's rate for one direction, in Mbit/s. Without a rate for the direction to the server, it uses BBR there.
fn told(channel: &Channel, direction: Direction) -> Option<u64> {
    let rate = channel.direction(direction)?.rate?;
    Some(rate.scale(TOLD.0, TOLD.1).as_bps() / STEP_BPS).filter(|mbps| *mbps > 0)
}

/// A port of the client that forwards everything to `target`, which the server connects to.
fn entrance(listen: SocketAddr, target: SocketAddr) -> Value {
    json!({
        "type": "direct", "listen": listen.ip(), "listen_port": listen.port(),
        "override_address": target.ip(), "override_port": target.port(),
    })
}

fn server_file(tunnel: Tunnel, outside: SocketAddr, tls: Value) -> Value {
    let common = json!({ "tag": "tunnel", "listen": outside.ip(), "listen_port": outside.port(), "tls": tls });
    let own = match tunnel {
        Tunnel::Hysteria2Brutal | Tunnel::Hysteria2Bbr => {
            json!({ "type": "hysteria2", "users": [{ "password": PASSWORD }] })
        }
        Tunnel::TuicBbr => json!({
            "type": "tuic", "users": [{ "uuid": UUID, "password": PASSWORD }], "congestion_control": "bbr",
        }),
    };
    json!({ "log": log(), "inbounds": [joined(common, own)], "outbounds": [{ "type": "direct" }] })
}

/// `rates` are those of the directions to the server and back.
fn client_file(
    tunnel: Tunnel,
    entrances: Vec<Value>,
    outside: SocketAddr,
    tls: Value,
    rates: [Option<u64>; 2],
) -> Value {
    let common = json!({ "tag": "tunnel", "server": outside.ip(), "server_port": outside.port(), "tls": tls });
    let own = match tunnel {
        Tunnel::Hysteria2Brutal => {
            let mut own = Map::from_iter([("type".into(), json!("hysteria2")), ("password".into(), json!(PASSWORD))]);
            for (key, rate) in ["up_mbps", "down_mbps"].into_iter().zip(rates) {
                own.extend(rate.map(|mbps| (key.into(), json!(mbps))));
            }
            Value::Object(own)
        }
        Tunnel::Hysteria2Bbr => json!({ "type": "hysteria2", "password": PASSWORD }),
        Tunnel::TuicBbr => json!({
            "type": "tuic", "uuid": UUID, "password": PASSWORD, "congestion_control": "bbr",
        }),
    };
    json!({
        "log": log(), "inbounds": entrances, "outbounds": [joined(common, own)], "route": { "final": "tunnel" },
    })
}

/// Log settings: no line per connection.
fn log() -> Value {
    json!({ "level": "warn", "timestamp": true })
}

/// The members of both objects.
fn joined(mut one: Value, other: Value) -> Value {
    if let (Value::Object(one), Value::Object(other)) = (&mut one, other) {
        one.extend(other);
    }
    one
}

/// Makes the program create a key and a certificate for [`NAME`]; returns the files' paths, the certificate's first.
fn certify(site: &Site<'_>, folder: &Path) -> Result<(String, String), LabError> {
    let mut command = program();
    command.args(["generate", "tls-keypair", NAME]);
    let made = tools::output(&site.world.nodes[site.pair[0]], command, REMEDY)?.stdout;
    let text = String::from_utf8_lossy(&made);
    let (key, certificate) = halves(&text).ok_or_else(|| LabError::Failed {
        program: "sing-box generate tls-keypair".into(),
        said: "it printed no key and certificate".into(),
    })?;
    let write = |name: &str, text: &str| -> Result<String, LabError> {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(LabError::io(format!("cannot write {}", path.display())))?;
        Ok(path.display().to_string())
    };
    Ok((write("cert.pem", certificate)?, write("key.pem", key)?))
}

/// The key and the certificate that `printed` contains one after the other.
fn halves(printed: &str) -> Option<(&str, &str)> {
    let at = printed.find("-----BEGIN CERTIFICATE-----")?;
    let (key, certificate) = printed.split_at(at);
    key.contains("PRIVATE KEY-----").then_some((key, certificate))
}

fn program() -> Command {
    tools::command(tools::find("sing-box").unwrap_or_else(|| "sing-box".into()))
}

/// Starts the program on a gateway with `config`.
fn run(site: &Site<'_>, gateway: usize, role: &str, config: &Value, folder: &Path) -> Result<Program, LabError> {
    let path = folder.join(format!("{role}-{gateway}.json"));
    let text = serde_json::to_string_pretty(config).expect("made of strings and numbers");
    std::fs::write(&path, text).map_err(LabError::io(format!("cannot write {}", path.display())))?;
    let mut command = program();
    command.args(["run", "--disable-color", "--config"]).arg(&path).current_dir(folder);
    site.start(gateway, &format!("sing-box-{role}"), command, REMEDY)
}

/// A connection through a tunnel to the lab's own listener at the far gateway: a connection that it accepts has crossed.
struct Proof {
    near: usize,
    listen: SocketAddr,
    target: SocketAddr,
    listener: TcpListener,
    attempt: Option<TcpStream>,
    given: bool,
}

impl Proof {
    fn new(site: &Site<'_>, near: usize, far: usize) -> Result<Self, LabError> {
        let address = SocketAddr::from((site.inside(far), 0));
        let made = site.world.nodes[far].run(move || -> std::io::Result<(TcpListener, SocketAddr)> {
            let listener = TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            Ok((listener, address))
        })?;
        let (listener, target) = made.map_err(LabError::io("cannot listen at the far gateway"))?;
        let listen = SocketAddr::from((site.inside(near), PROOF_PORT));
        Ok(Self { near, listen, target, listener, attempt: None, given: false })
    }

    /// Whether a connection has come through. Connects if none is in progress; if its handshake failed, the program refuses a connection at
    /// once.
    fn given(&mut self, site: &Site<'_>) -> Result<bool, LabError> {
        self.given |= self.listener.accept().is_ok();
        if self.given {
            self.attempt = None;
            return Ok(true);
        }
        let ended = self.attempt.as_mut().is_none_or(|stream| match stream.read(&mut [0]) {
            Ok(_) => true,
            Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
        });
        if ended {
            let listen = self.listen;
            // The gateway's own address: the kernel answers at once.
            let made = site.world.nodes[self.near].run(move || TcpStream::connect(listen))?;
            let stream = made.map_err(LabError::io("cannot connect to sing-box"))?;
            stream.set_nonblocking(true).map_err(LabError::io("cannot use a socket"))?;
            self.attempt = Some(stream);
        }
        Ok(false)
    }
}

#[cfg(test)]
#[path = "singbox_tests.rs"]
mod tests;
