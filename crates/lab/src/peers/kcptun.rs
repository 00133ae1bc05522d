//! kcptun: TCP carried by KCP over UDP with fixed Reed-Solomon redundancy, one pair of programs per forwarded port.
//!
//! Both ends get the same settings, as the program requires. Compression is off (the bodies are random) and the cipher is AES-128, the
//! cheapest that its documentation calls safe; everything else is the program's default.

use super::forward::{Awaited, Forward, Forwards, all_bound};
use super::{Site, wait_for};
use crate::LabError;
use crate::program::Program;
use crate::tools;
use std::net::SocketAddr;
use wavelane_base::Span;

const REMEDY: &str = "install kcptun (apt install kcptun)";
/// Required programs and how to install them.
pub(super) const PROGRAMS: &[(&str, &str)] = &[("kcptun-server", REMEDY), ("kcptun-client", REMEDY)];
/// The default profile and windows.
pub(super) const DEFAULT: &[&str] = &["--mode", "fast"];
/// The most aggressive profile, with windows that fill 20 Mbit/s over 100 ms five times.
pub(super) const FAST3: &[&str] = &["--mode", "fast3", "--sndwnd", "1024", "--rcvwnd", "1024"];
/// Settings that both ends must share.
const COMMON: &[&str] =
    &["--key", "wavelane laboratory", "--crypt", "aes-128", "--nocomp", "--smuxver", "2", "--quiet"];
/// UDP port of the first forwarded service; each further one uses the next port.
const KCP_PORT: u16 = 30_000;
/// Time limit until all programs listen: deriving the key alone takes a second.
const READY_WITHIN: Span = Span::from_secs(20);

/// The running forwards.
pub(super) struct Kcptun {
    forwards: Forwards,
}

impl Kcptun {
    /// Starts a pair of programs per server and direction.
    pub(super) fn start(
        site: &Site<'_>,
        profile: &[&str],
        servers: &[SocketAddr],
        programs: &mut Vec<Program>,
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<Self, LabError> {
        let forwards = Forwards::of(site, "kcptun", servers)?;
        let mut awaited = Vec::new();
        for (number, Forward { near, far, listen, target }) in (0..).zip(forwards.iter()) {
            let (near, far) = (*near, *far);
            let outside = SocketAddr::from((site.outside(far), KCP_PORT + number));
            let mut server = tools::command("kcptun-server");
            server.args(["--listen", &outside.to_string(), "--target", &target.to_string()]);
            programs.push(site.start(far, &format!("kcptun-server-{number}"), with(server, profile), REMEDY)?);
            awaited.push(Awaited { node: far, protocol: "udp", address: outside });
            let mut client = tools::command("kcptun-client");
            client.args(["--localaddr", &listen.to_string(), "--remoteaddr", &outside.to_string()]);
            programs.push(site.start(near, &format!("kcptun-client-{number}"), with(client, profile), REMEDY)?);
            awaited.push(Awaited { node: near, protocol: "tcp", address: *listen });
        }
        wait_for("kcptun did not listen", READY_WITHIN, programs, stop, &mut || all_bound(site, &awaited))?;
        Ok(Self { forwards })
    }

    /// The forwarded ports.
    pub(super) fn forwards(&self) -> &Forwards {
        &self.forwards
    }
}

fn with(mut command: std::process::Command, profile: &[&str]) -> std::process::Command {
    command.args(COMMON).args(profile);
    command
}
