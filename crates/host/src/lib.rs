//! All system calls of Wavelane, behind safe functions.

pub mod bpf;
pub mod caps;
pub mod claim;
pub mod clock;
pub mod conntrack;
pub mod entropy;
pub mod files;
pub mod hops;
pub mod icmp;
pub mod ipip;
pub mod links;
pub mod load;
pub mod media;
pub mod neighbors;
pub mod netns;
pub mod nfqueue;
pub mod nft;
pub mod outage;
pub mod own_user;
pub mod packet;
pub mod pipe;
pub mod poller;
pub mod port;
pub mod raw;
pub mod realtime;
pub mod routes;
pub mod signals;
pub mod streams;
pub mod tap;
pub mod tcp;
mod tool;
pub mod tty;
pub mod tun;
pub use media::{ether, udp};

/// Whether this process runs with user id 0.
pub fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// The user that this process runs as.
pub fn user_id() -> u32 {
    nix::unistd::geteuid().as_raw()
}

/// The addresses of this host's interfaces now.
pub fn own_addresses() -> std::io::Result<Vec<std::net::IpAddr>> {
    Ok(interface_addresses()?.into_iter().map(|(_, ip)| ip).collect())
}

/// The addresses of the interface `name` now; none if there is no such interface.
pub fn addresses_of(name: &str) -> Vec<std::net::IpAddr> {
    let all = interface_addresses().unwrap_or_default();
    all.into_iter().filter(|(interface, _)| interface == name).map(|(_, ip)| ip).collect()
}

fn interface_addresses() -> std::io::Result<Vec<(String, std::net::IpAddr)>> {
    let mut found = Vec::new();
    for interface in nix::ifaddrs::getifaddrs()? {
        let Some(address) = interface.address else { continue };
        if let Some(v4) = address.as_sockaddr_in() {
            found.push((interface.interface_name, v4.ip().into()));
        } else if let Some(v6) = address.as_sockaddr_in6() {
            found.push((interface.interface_name, v6.ip().into()));
        }
    }
    Ok(found)
}

/// Whether this kernel has IPv6 and this network namespace uses it.
pub fn has_ipv6() -> bool {
    // While no file can be opened it is taken to be as it was.
    static LAST: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(true);
    let found = match std::fs::read_to_string("/proc/sys/net/ipv6/conf/all/disable_ipv6") {
        Err(e) if caps::is_exhausted(&e) => return LAST.load(std::sync::atomic::Ordering::Relaxed),
        found => found.is_ok_and(|v| v.trim() == "0"),
    };
    LAST.store(found, std::sync::atomic::Ordering::Relaxed);
    found
}

/// Whether this network namespace has an interface called `name` now.
pub fn interface_exists(name: &str) -> bool {
    interface_index(name).is_some()
}

/// Whether an interface is set up (`ip link set NAME up`), with or without a carrier; `None` if no interface has that name.
pub fn interface_is_up(name: &str) -> Option<bool> {
    let found = nix::ifaddrs::getifaddrs().ok()?.find(|interface| interface.interface_name == name)?;
    Some(found.flags.contains(nix::net::if_::InterfaceFlags::IFF_UP))
}

/// Whether the interface needs no ARP: it is point-to-point, or resolves no addresses. `None` if no interface has that name.
pub fn interface_needs_no_arp(name: &str) -> Option<bool> {
    use nix::net::if_::InterfaceFlags;
    let found = nix::ifaddrs::getifaddrs().ok()?.find(|interface| interface.interface_name == name)?;
    Some(found.flags.intersects(InterfaceFlags::IFF_POINTOPOINT | InterfaceFlags::IFF_NOARP))
}

/// The name of the interface with that index.
pub fn interface_name(index: u32) -> Option<String> {
    nix::net::if_::if_indextoname(index).ok()?.into_string().ok()
}

/// The kernel's index of an interface; it changes each time an interface of that name is created.
pub fn interface_index(name: &str) -> Option<u32> {
    nix::net::if_::if_nametoindex(name).ok()
}
