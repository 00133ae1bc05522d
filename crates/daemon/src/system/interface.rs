//! What the kernel must be told of a device of ours before packets come and go by it, and the device of a proxy.

use crate::config::prefix_text;
use std::net::Ipv4Addr;
use wavelane_base::IpPrefix;
use wavelane_host::nft::{ToolError, run};
use wavelane_host::tun::{OffloadTun, TunError};

/// Why the packet door cannot be set up. One line, with the remedy.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DeviceError {
    #[error(transparent)]
    Device(#[from] TunError),
    #[error(transparent)]
    Tool(#[from] ToolError),
    #[error(
        "[tun] needs this host to forward what arrives on {interfaces}, but {setting} is 0: run `sysctl -w {setting}=1` (and put it into /etc/sysctl.d), or remove [tun]"
    )]
    NoForwarding { interfaces: String, setting: &'static str },
    #[error(
        "{setting} is {value}, so answers that come back through {device} may be dropped for their source: run `sysctl -w {setting}=2`"
    )]
    ReversePath { device: String, setting: String, value: u8 },
}

/// The address of a proxy's device: link-local (RFC 3927), of its link alone. A device without one passes no loose reverse-path check.
pub(crate) const PROXY_ADDRESS: Ipv4Addr = Ipv4Addr::new(169, 254, 77, 1);
/// It carries packets of every size.
const PROXY_MTU: u32 = u16::MAX as u32;

/// Makes the device of a proxy on our own TCP.
pub(crate) fn make_for_proxy(name: &str) -> Result<OffloadTun, DeviceError> {
    let made = OffloadTun::open(name, true)?;
    set_up_for_proxy(name)?;
    allow_other_ways(name)?;
    // This host's own ICMP errors about packets that are not split come back through it too.
    let path = of_device(name, "accept_local");
    let refused = |e: std::io::Error| ToolError::Refused { tool: path.clone(), said: e.to_string() };
    std::fs::write(&path, "1").map_err(refused)?;
    Ok(made)
}

/// The device by which packets come and go that a tunnel holds.
pub(crate) const TUNNEL_DEVICE: &str = "wavelane-tunnel";

/// Makes it. It takes packets of every size: what fits is a route's word (see [`into_tunnel`]).
pub(crate) fn make_for_tunnels() -> Result<OffloadTun, DeviceError> {
    let made = OffloadTun::open(TUNNEL_DEVICE, true)?;
    run("ip", &["-batch", "-"], &tunnel_lacks(None).concat())?;
    no_made_up_address(TUNNEL_DEVICE);
    Ok(made)
}

/// What `ip` is told to give it its MTU and state, as far as it has not.
pub(crate) fn tunnel_lacks(index: Option<u32>) -> Vec<String> {
    let mtu = index.and_then(wavelane_host::routes::interface_mtu) != Some(PROXY_MTU);
    let up = index.is_none() || wavelane_host::interface_is_up(TUNNEL_DEVICE) != Some(true);
    let mtu = mtu.then(|| format!("link set dev {TUNNEL_DEVICE} mtu {PROXY_MTU}\n"));
    mtu.into_iter().chain(up.then(|| format!("link set dev {TUNNEL_DEVICE} up\n"))).collect()
}

/// What `ip` is told to lead what goes to a network into the tunnel, packets of at most `mtu`: the kernel cuts larger ones, or says so to their
/// senders. Only a route that stands there is replaced, and none that is another's. It goes with the device.
pub(crate) fn into_tunnel(network: &IpPrefix, mtu: u32, stands: bool) -> String {
    let verb = if stands { "replace" } else { "add" };
    format!("route {verb} {} dev {TUNNEL_DEVICE} mtu {mtu}\n", prefix_text(network))
}

/// Sets it up, with its MTU and its address.
pub(crate) fn set_up_for_proxy(name: &str) -> Result<(), ToolError> {
    if wavelane_host::interface_index(name).and_then(wavelane_host::routes::interface_mtu) != Some(PROXY_MTU) {
        run("ip", &["link", "set", "dev", name, "mtu", &PROXY_MTU.to_string()], "")?;
        no_made_up_address(name);
    }
    run("ip", &["address", "replace", &format!("{PROXY_ADDRESS}/32"), "scope", "link", "dev", name], "")?;
    run("ip", &["link", "set", "dev", name, "up"], "")?;
    allow_other_ways_again(name)
}

/// Routers have no use for an address that the kernel makes up, as it does when IPv6 comes back with an MTU that is large enough; a kernel
/// without IPv6 does not know the word.
pub(crate) fn no_made_up_address(name: &str) {
    let _ = run("ip", &["link", "set", "dev", name, "addrgenmode", "none"], "");
    let _ = run("ip", &["-6", "address", "flush", "dev", name, "scope", "link"], "");
}

/// The value of `rp_filter` that drops what comes from an address reached by another interface (ip-sysctl).
const STRICT: u8 = 1;

pub(super) fn setting(key: &str) -> Option<u8> {
    std::fs::read_to_string(format!("/proc/sys/{}", key.replace('.', "/"))).ok()?.trim().parse().ok()
}

/// Where a device's setting stands: a name may hold dots, so the path is not made from the setting's name.
fn of_device(device: &str, setting: &str) -> String {
    format!("/proc/sys/net/ipv4/conf/{device}/{setting}")
}

fn read_setting(path: &str) -> Option<u8> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// `rp_filter` of all interfaces, and of one together with it: the stricter of two settings counts (ip-sysctl).
fn reverse_path(device: &str) -> (u8, u8) {
    let all = setting("net.ipv4.conf.all.rp_filter").unwrap_or(0);
    (all, read_setting(&of_device(device, "rp_filter")).unwrap_or(0).max(all))
}

/// Whether packets may arrive on the device whose source the main table would look for elsewhere.
pub(crate) fn allows_other_ways(device: &str) -> bool {
    reverse_path(device).1 != STRICT
}

/// Lets packets arrive on the device whose source the main table would look for elsewhere: its routes lie in ours,
/// which a reverse-path check does not see. 2 is the laxest that overrules a 1 for all.
pub(super) fn allow_other_ways(device: &str) -> Result<(), DeviceError> {
    let lax = if reverse_path(device).0 == 0 { "0" } else { "2" };
    let written = std::fs::write(of_device(device, "rp_filter"), lax);
    let value = reverse_path(device).1;
    if written.is_err() && value == STRICT {
        let setting = format!("net.ipv4.conf.{device}.rp_filter");
        return Err(DeviceError::ReversePath { device: device.into(), setting, value });
    }
    Ok(())
}

/// The same for a device that stands.
pub(super) fn allow_other_ways_again(device: &str) -> Result<(), ToolError> {
    let refused = |e: DeviceError| ToolError::Refused { tool: "the kernel".into(), said: e.to_string() };
    if allows_other_ways(device) { Ok(()) } else { allow_other_ways(device).map_err(refused) }
}
