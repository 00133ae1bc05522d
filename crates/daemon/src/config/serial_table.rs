//! `[serial]`: IP over a serial line, and how its table becomes a [`SerialIp`].

use super::addresses::prefixes;
use super::check::is_interface_name;
use super::line::{dial, line};
use super::{ConfigError, DeviceKind, Line, Surroundings, value};
use crate::keys::KeyError;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use wavelane_base::IpPrefix;
use wavelane_serial::ppp::{AUTH_MAX, Login};
use wavelane_serial::{Framing, dialer};
use wavelane_settings::SerialTable;

/// IPv6 needs packets of this size (RFC 8200, section 5).
const MTU_OF_IPV6: usize = 1_280;
/// Most addresses and routes.
const LISTED_MAX: usize = 64;

/// A line whose packets are those of a TUN device here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SerialIp {
    /// Path of the port.
    pub device: String,
    /// How it is set.
    pub line: Line,
    /// How its modem gets a connection, if it has one.
    pub dial: Option<dialer::Config>,
    /// The TUN device's name.
    pub name: String,
    /// This host's addresses on it.
    pub addresses: Vec<IpPrefix>,
    /// The other end's address, which PPP tells it.
    pub peer: Option<Ipv4Addr>,
    /// Whether PPP may compress TCP's headers.
    pub compress: bool,
    /// Who this end is, for a PPP end that asks.
    pub login: Option<Login>,
    /// Networks that the line leads to.
    pub routes: Vec<IpPrefix>,
}

impl SerialIp {
    pub(super) fn from_table(t: SerialTable, folder: &Path, around: &Surroundings) -> Result<Self, ConfigError> {
        let (device, name) = (t.device.unwrap_or_default(), t.name.unwrap_or_else(|| "serial0".into()));
        let (addresses, routes) = (t.addresses.unwrap_or_default(), t.routes.unwrap_or_default());
        if let Some(why) = DeviceKind::SerialPort.refuse(&device) {
            return Err(value("serial.device", why));
        }
        if !is_interface_name(&name) {
            return Err(value("serial.name", format!("'{name}' is not an interface name (see `ip link`)")));
        }
        let line = line(&t.line, "serial")?;
        // PPP agrees on addresses, or has them from the other end.
        if addresses.is_empty() && line.framing != Framing::Ppp {
            return Err(value("serial.addresses", "is missing: give this end's address, such as \"192.0.2.1/30\""));
        }
        let address = |text: &String| {
            let wrong = |_| value("serial.addresses", format!("'{text}' is not an address such as 192.0.2.1/30"));
            text.parse::<IpPrefix>().map_err(wrong)
        };
        let addresses: Vec<IpPrefix> = addresses.iter().map(address).collect::<Result<_, ConfigError>>()?;
        let routes = prefixes("serial.routes", &routes)?;
        if addresses.len().max(routes.len()) > LISTED_MAX {
            return Err(value("serial.routes", format!("at most {LISTED_MAX} routes, and as many addresses")));
        }
        let wrong = || value("serial.peer", "must be an IPv4 address, such as \"192.0.2.1\"");
        let peer: Option<Ipv4Addr> = t.peer.map(|peer| peer.parse().map_err(|_| wrong())).transpose()?;
        let six = addresses.iter().any(|a| a.address.is_ipv6()) || routes.iter().any(|r| r.address.is_ipv6());
        if six && line.mtu < MTU_OF_IPV6 {
            return Err(value("serial.mtu", format!("is {}, and IPv6 needs {MTU_OF_IPV6}", line.mtu)));
        }
        if six && line.framing == Framing::Ppp {
            return Err(value("serial.framing", "is \"ppp\", which carries IPv4 alone here: use \"slip\" for IPv6"));
        }
        if peer.is_some() && line.framing != Framing::Ppp {
            return Err(value("serial.peer", "is told by PPP alone: remove it, or write framing = \"ppp\""));
        }
        if t.compress.is_some() && line.framing != Framing::Ppp {
            return Err(value("serial.compress", "is agreed on by PPP alone: remove it, or write framing = \"ppp\""));
        }
        let compress = t.compress.unwrap_or(true);
        let login = login(
            t.user,
            t.secret_file.map(|file| folder.join(file)),
            t.auth.as_deref(),
            line.framing,
            around.private_text,
        )?;
        let dial = dial(t.line.chat.as_deref(), line.framing == Framing::Ppp, "serial")?;
        Ok(Self { device, line, dial, name, addresses, peer, compress, login, routes })
    }
}

/// A name, and a secret from a file that nobody else may read.
fn login(
    user: Option<String>,
    file: Option<PathBuf>,
    auth: Option<&str>,
    framing: Framing,
    read: fn(&Path) -> Result<String, KeyError>,
) -> Result<Option<Login>, ConfigError> {
    let chap_only = match auth {
        None | Some("any") => false,
        Some("chap") => true,
        Some(other) => {
            let what = format!("is '{other}': write \"chap\", which shows the secret to nobody, or \"any\"");
            return Err(value("serial.auth", what));
        }
    };
    let (name, file) = match (user, file) {
        (None, None) if auth.is_some() => {
            return Err(value(
                "serial.auth",
                "says how a name is proved, and there is none: add `user` and `secret_file`",
            ));
        }
        (None, None) => return Ok(None),
        (Some(name), Some(file)) => (name, file),
        (None, Some(_)) => return Err(value("serial.user", "is missing, and there is a `secret_file`: add it")),
        (Some(_), None) => {
            let what = "is missing, and there is a `user`: name a file with the secret, which no one else may read";
            return Err(value("serial.secret_file", what));
        }
    };
    if framing != Framing::Ppp {
        return Err(value("serial.user", "is told by PPP alone: remove it, or write framing = \"ppp\""));
    }
    let secret = match read(&file) {
        Err(KeyError::Missing(_)) => {
            let what =
                format!("{} does not exist: write the secret into it, in one line, with mode 600", file.display());
            return Err(value("serial.secret_file", what));
        }
        secret => secret?,
    };
    // Editors end a last line in their ways.
    let secret = secret.trim_end_matches(['\r', '\n']).to_owned();
    if !(1..=AUTH_MAX).contains(&secret.len()) || secret.contains(['\r', '\n']) {
        let what = format!("{} holds no secret: write one line of at most {AUTH_MAX} octets", file.display());
        return Err(value("serial.secret_file", what));
    }
    if !(1..=AUTH_MAX).contains(&name.len()) {
        return Err(value("serial.user", format!("has {} octets: write 1 to {AUTH_MAX}", name.len())));
    }
    Ok(Some(Login { name, secret, chap_only }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_name_comes_with_a_secret_that_nobody_else_reads() {
        let file = std::env::temp_dir().join(format!("wavelane-{}-ppp-secret", std::process::id()));
        let put = |text: &str, mode: u32| {
            std::fs::write(&file, text).expect("written");
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).expect("set");
        };
        let login = |user: Option<&str>, file, auth, framing| {
            login(user.map(Into::into), file, auth, framing, crate::keys::read_private)
        };
        let read = |framing| login(Some("me"), Some(file.clone()), None, framing);
        put("open sesame\n", 0o600);
        let whole = Login { name: "me".into(), secret: "open sesame".into(), chap_only: false };
        for end in ["", "\n", "\r\n"] {
            put(&format!("open sesame{end}"), 0o600);
            assert_eq!(read(Framing::Ppp).expect("right"), Some(whole.clone()), "{end:?}");
        }
        let by = |auth| login(Some("me"), Some(file.clone()), Some(auth), Framing::Ppp);
        assert!(by("chap").expect("right").is_some_and(|login| login.chap_only));
        let why = |result: Result<Option<Login>, ConfigError>| result.expect_err("refused").to_string();
        assert!(why(read(Framing::Slip)).contains("PPP alone"));
        assert!(why(login(Some("me"), None, None, Framing::Ppp)).contains("secret_file"));
        assert!(why(login(None, Some(file.clone()), None, Framing::Ppp)).contains("serial.user"));
        assert!(why(login(None, None, Some("chap"), Framing::Ppp)).contains("add `user`"));
        assert!(why(by("pap")).contains("write \"chap\""));
        put("open sesame\n", 0o644);
        assert!(why(read(Framing::Ppp)).contains("644"), "others may read it");
        for text in ["", "\n", "two\nlines\n", "two\r\nlines\r\n", &"long".repeat(64)] {
            put(text, 0o600);
            assert!(why(read(Framing::Ppp)).contains("holds no secret"), "{text:?}");
        }
        std::fs::remove_file(&file).expect("it is there");
        let missing = why(read(Framing::Ppp));
        assert!(missing.contains("write the secret into it") && !missing.contains("keygen"), "{missing}");
    }
}
