//! Addresses by lease: Debian's dnsmasq at an access network's router, and its dhclient on the mobile.

use crate::LabError;
use crate::program::{self, Ending, Program};
use crate::tools;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use wavelane_host::netns::Netns;

/// The programs, and what to do when they are missing.
pub(crate) const SERVER: (&str, &str) = ("dnsmasq", "install dnsmasq-base (apt install dnsmasq-base)");
pub(crate) const CLIENT: (&str, &str) = ("dhclient", "install isc-dhcp-client (apt install isc-dhcp-client)");

/// What the client is told beside its interface: to ask again soon (its own usual 10 s is not RFC 2131's 4 s either), and to go on.
const WISHES: &str = "initial-interval 1;\nbackoff-cutoff 4;\nselect-timeout 0;\nreboot 0;\ntimeout 600;\nrequest subnet-mask, routers;\n";

/// An address and the router to everything else.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Lease {
    pub(super) address: Ipv4Addr,
    pub(super) router: Ipv4Addr,
}

/// Starts the server of a network whose one lease this is.
pub(super) fn serve(
    ns: &Netns,
    interface: &str,
    lease: Lease,
    (folder, logs): (&Path, &Path),
) -> Result<Program, LabError> {
    let Lease { address, router } = lease;
    let mut command = tools::command(SERVER.0);
    // No DNS, nothing of this host's own files; without a ping first, for which it would wait 3 s.
    command.args([
        "--keep-in-foreground",
        "--conf-file=/dev/null",
        "--port=0",
        "--no-hosts",
        "--no-resolv",
        "--no-ping",
    ]);
    command.args(["--bind-interfaces", "--except-interface=lo", "--dhcp-authoritative", "--pid-file="]);
    // A program that changes user or group hears no more of its owner's death (prctl(2), PR_SET_PDEATHSIG).
    command.args(["--user=root", "--group=root"]);
    // Else it has the kernel know the mobile as a neighbour, which without ARP (see the devices) would be unreachable again after 8 s.
    command.arg("--dhcp-broadcast");
    command.arg(format!("--interface={interface}"));
    command.arg(format!("--dhcp-range={address},{address},255.255.255.252,1h"));
    command.arg(format!("--dhcp-option=option:router,{router}"));
    command.arg(format!("--dhcp-leasefile={}", folder.join(format!("{interface}.leased")).display()));
    command.arg("--log-facility=-");
    let log = logs.join(format!("dhcp-{interface}.log"));
    Program::start(ns, format!("the DHCP server on {interface}"), command, log, Ending::Exits, SERVER.1)
}

/// A running client.
pub(super) struct Client {
    program: Program,
    written: PathBuf,
}

impl Client {
    /// Starts it. What it is given it writes down and sets nothing: its files, its script and its namespace are its own.
    pub(super) fn start(ns: &Netns, interface: &str, (folder, logs): (&Path, &Path)) -> Result<Self, LabError> {
        let file = |end: &str| folder.join(format!("{interface}.{end}"));
        let written = file("given");
        let cannot = || LabError::io(format!("cannot write in {}", folder.display()));
        let script = format!(
            "#!/bin/sh\n[ -n \"$new_ip_address\" ] || exit 0\nprintf '%s %s\\n' \"$new_ip_address\" \"$new_routers\" >'{0}.new' && mv '{0}.new' '{0}'\n",
            written.display()
        );
        for (path, text) in [(file("sh"), script.as_str()), (file("conf"), WISHES)] {
            std::fs::write(path, text).map_err(cannot())?;
        }
        std::fs::set_permissions(file("sh"), PermissionsExt::from_mode(0o700)).map_err(cannot())?;
        let mut command = tools::command(CLIENT.0);
        command.args(["-4", "-d", "--no-pid", "-sf"]).arg(file("sh")).arg("-cf").arg(file("conf"));
        command.arg("-lf").arg(file("leases")).arg(interface);
        let log = logs.join(format!("dhclient-{interface}.log"));
        let name = format!("the DHCP client on {interface}");
        Ok(Self { program: Program::start(ns, name, command, log, Ending::BySignal, CLIENT.1)?, written })
    }

    /// What it was given, once it was. Fails if it has ended.
    pub(super) fn lease(&mut self) -> Result<Option<Lease>, LabError> {
        self.program.check()?;
        let text = std::fs::read_to_string(&self.written).unwrap_or_default();
        let mut words = text.split_whitespace().map(|word| word.parse().ok());
        Ok(match (words.next().flatten(), words.next().flatten()) {
            (Some(address), Some(router)) => Some(Lease { address, router }),
            _ => None,
        })
    }

    /// Ends it; its lease stays.
    pub(super) fn end(self) -> Vec<String> {
        program::end(vec![self.program])
    }
}
