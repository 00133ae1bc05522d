//! Places that the daemon could not take as this host is now: `check` says so before the start does.

use crate::config::Config;
use crate::start::{is_taken, lacks_address};
use std::io::ErrorKind;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use wavelane_host::files;

/// Each in a line, with its remedy.
pub(super) fn findings(config: &Config) -> Vec<String> {
    // A gateway that runs holds these places itself.
    let runs = UnixStream::connect(&config.control).is_ok();
    let all = [if runs { None } else { control(config) }, metrics(config), listen(config, runs)];
    let all = all.into_iter().flatten().map(|why| format!("wavelaned does not start as this host is now: {why}"));
    all.chain(unserved(config, runs)).chain(awaited(config)).collect()
}

/// Addresses that it waits for.
fn awaited(config: &Config) -> impl Iterator<Item = String> {
    let all = [("listen", Some(config.listen)), ("metrics", config.metrics)].into_iter();
    let all = all.filter_map(|(key, at)| Some((key, at?))).filter(|(_, at)| !wavelane_host::udp::is_own(*at, None));
    all.map(|(key, at)| {
        format!(
            "address {} of gateway.{key} is not this machine's now (`ip address`): it is used as soon as it is there",
            at.ip()
        )
    })
}

fn control(config: &Config) -> Option<String> {
    let path = &config.control;
    let shown = path.display();
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        // The service's own folder is made when it starts.
        let made_by_service = folder == std::path::Path::new(crate::load::SERVICE_FOLDER);
        let wrong = format!(
            "gateway.control = \"{shown}\": {} is no folder here: make it, or name another path",
            folder.display()
        );
        return (!made_by_service).then_some(wrong);
    }
    if path.symlink_metadata().is_ok() && !files::is_own(path, FileTypeExt::is_socket) {
        return Some(format!(
            "gateway.control = \"{shown}\": what is there is no socket of ours: remove it, or name another path"
        ));
    }
    None
}

/// The port of the figures is waited for, too.
fn unserved(config: &Config, runs: bool) -> Option<String> {
    let at = config.metrics.filter(|at| !runs && TcpListener::bind(at).is_err_and(|e| is_taken(&e)))?;
    Some(format!(
        "gateway.metrics = \"{at}\" serves no figures before another program gives that port free (`ss -lptn` names it)"
    ))
}

fn metrics(config: &Config) -> Option<String> {
    let at = config.metrics?;
    let why = TcpListener::bind(at).err().filter(|e| is_final(e, true))?;
    Some(format!("gateway.metrics = \"{at}\": {}", remedy(&why)))
}

fn listen(config: &Config, runs: bool) -> Option<String> {
    let at = config.listen;
    let why = UdpSocket::bind(at).err().filter(|e| is_final(e, runs))?;
    Some(format!("gateway.listen = \"{at}\": {}", remedy(&why)))
}

/// Whether it keeps the gateway from starting. An address that is not there yet is waited for.
fn is_final(why: &std::io::Error, runs: bool) -> bool {
    !(runs && is_taken(why) || lacks_address(why))
}

fn remedy(why: &std::io::Error) -> String {
    let what = match why.kind() {
        ErrorKind::AddrInUse => {
            "another program has it (`ss -lnp` says which; it is tried again each second): stop that, or name another port"
        }
        ErrorKind::PermissionDenied => "not without root below port 1024: name a higher port",
        _ => return format!("{why}: name another address"),
    };
    what.into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn what_cannot_be_bound_is_found_before_the_start() {
        let dir = std::env::temp_dir().join(format!("wavelane-unbindable-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        crate::keys::write_key(&dir.join("a.key"), &[1; 32]).unwrap();
        let key = crate::keys::to_base64(&[9; 32]);
        let found = |gateway: &str| {
            let text = format!(
                "[gateway]\nname = \"a\"\nkey = \"a.key\"\n{gateway}\n[[peer]]\nname = \"b\"\npublic_key = \"{key}\"\n"
            );
            findings(&Config::parse(&text, "x", &dir).unwrap()).concat()
        };
        // Taken by this test, so that the gateway's own port is free.
        let (tcp, udp) = (TcpListener::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let listen = format!("listen = \"{port}\"\n");
        let free = format!("{listen}control = \"a.sock\"\n");
        assert_eq!(found(&free), "");
        let taken = found(&format!("{free}metrics = \"{}\"", tcp.local_addr().unwrap()));
        assert!(
            taken.contains("gateway.metrics = \"127.0.0.1:") && taken.contains("serves no figures before another"),
            "{taken}"
        );
        let taken = found(&format!("listen = \"{}\"\ncontrol = \"a.sock\"", udp.local_addr().unwrap()));
        assert!(taken.contains("gateway.listen = ") && taken.contains("another program has it"), "{taken}");
        // TEST-NET-1 (RFC 5737) is nobody's.
        let foreign = found(&format!("{free}metrics = \"192.0.2.1:9478\""));
        assert!(foreign.starts_with("address 192.0.2.1 of gateway.metrics is not this machine's now"), "{foreign}");
        let nowhere = found(&format!("{listen}control = \"nowhere/a.sock\""));
        assert!(nowhere.contains("is no folder here: make it"), "{nowhere}");
        std::fs::write(dir.join("file"), "").unwrap();
        let file = found(&format!("{listen}control = \"file\""));
        assert!(file.contains("is no socket of ours: remove it"), "{file}");
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
