//! HAProxy as a transparent proxy on one node: what a packaged split proxy does with the same traffic.

use crate::LabError;
use crate::folder::Folder;
use crate::program::{self, Ending, GLANCE, Program};
use crate::sockets::rest_until;
use crate::tools;
use std::path::Path;
use std::process::Command;
use wavelane_base::Span;
use wavelane_host::netns::Netns;
use wavelane_host::realtime;

pub(crate) const WORD: &str = "haproxy";
pub(crate) const INSTALL: &str = "install HAProxy (apt install haproxy)";
/// Where it listens: 0x1388 in /proc/net/tcp.
const PORT: u16 = 5000;
const LISTENS: &str = ":1388 00000000:0000 0A";
const READY_WITHIN: Span = Span::from_secs(10);
/// Every packet of its transparent sockets goes to it, and what arrives for this port of the server's.
const MARK: u32 = 0x4841;

/// Its configuration: both addresses of every connection kept, as Debian's documentation of `usesrc client` has it.
fn config(splice: bool) -> String {
    let splice = if splice { "option splice-auto\n" } else { "" };
    format!(
        "global\nmaxconn 4000\nmaxpipes 1000\ndefaults\nmode tcp\n{splice}timeout connect 10s\ntimeout client 1h\ntimeout server 1h\n\
         frontend front\nbind :{PORT} transparent\ndefault_backend back\nbackend back\nsource 0.0.0.0 usesrc client\nserver any 0.0.0.0\n"
    )
}

/// The running program; its rules go with the namespace.
pub(crate) struct Haproxy {
    programs: Vec<Program>,
    // Dropped after the program has ended.
    _folder: Folder,
}

impl Haproxy {
    /// Starts it in `ns` for connections to `port`, and waits until it listens.
    pub(crate) fn start(
        ns: &Netns,
        port: u16,
        splice: bool,
        out: &Path,
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<Self, LabError> {
        let (folder, logs) = (Folder::new()?, program::logs(out)?);
        let file = folder.path().join("haproxy.cfg");
        std::fs::write(&file, config(splice)).map_err(LabError::io(format!("cannot write {}", file.display())))?;
        let rules = folder.path().join("rules.nft");
        let text = format!(
            "table ip haproxy {{ chain pre {{ type filter hook prerouting priority mangle; \
             meta l4proto tcp socket transparent 1 meta mark set {MARK} accept; \
             tcp dport {port} tproxy to :{PORT} meta mark set {MARK} accept; }}; }}\n"
        );
        std::fs::write(&rules, text).map_err(LabError::io(format!("cannot write {}", rules.display())))?;
        let mut nft = tools::command("nft");
        nft.arg("-f").arg(&rules);
        tools::output(ns, nft, tools::INSTALL_NFT)?;
        let steps = [format!("rule add fwmark {MARK} lookup 100"), "route add local default dev lo table 100".into()];
        tools::ip(ns, &steps)?;
        let mut command: Command = tools::command(WORD);
        command.args(["-db", "-f"]).arg(&file);
        let log = logs.join(if splice { "haproxy-splice.log" } else { "haproxy.log" });
        let mut program = Program::start(ns, WORD.into(), command, log, Ending::BySignal, INSTALL)?;
        let deadline = realtime::now() + READY_WITHIN;
        let listens = || std::fs::read_to_string("/proc/thread-self/net/tcp").is_ok_and(|all| all.contains(LISTENS));
        while !ns.run(listens)? {
            program.check()?;
            if stop() {
                return Err(LabError::Cancelled);
            }
            if realtime::now() > deadline {
                return Err(LabError::Late(format!(
                    "haproxy did not listen within {READY_WITHIN} ({})",
                    program.last_line()
                )));
            }
            rest_until(realtime::now() + GLANCE, || false);
        }
        Ok(Self { programs: vec![program], _folder: folder })
    }
    pub(crate) fn programs(&mut self) -> &mut Vec<Program> {
        &mut self.programs
    }
    pub(crate) fn cpu_seconds(&self) -> Option<f64> {
        self.programs.iter().map(Program::cpu_seconds).sum()
    }
    pub(crate) fn resident(&self) -> Option<u64> {
        self.programs.iter().map(Program::resident).sum()
    }
}

impl Drop for Haproxy {
    fn drop(&mut self) {
        program::end(self.programs.drain(..).collect());
    }
}
