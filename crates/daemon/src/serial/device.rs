//! The device of `[serial]`: its addresses and the routes that lead to it, and what another program takes away of them.

use super::SerialError;
use crate::config::{SerialIp, first_of, prefix_text, width};
use crate::system::family::Family;
use crate::system::interface::no_made_up_address;
use crate::system::kernel::Failing;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use wavelane_base::{Instant, IpPrefix, Span};
use wavelane_host::nft::{ToolError, run};
use wavelane_host::realtime;
use wavelane_host::routes::{interface_mtu, networks_by};
use wavelane_host::tun::Tun;
use wavelane_serial::ppp::Agreed;

/// How often the device is looked at: what is gone is back within a second.
const LOOK_EVERY: Span = Span::from_millis(500);
/// At most a twentieth of the time goes to it, however many routes this host has.
const REST_PER_LOOK: u64 = 19;

/// The device, as it is to be.
pub(crate) struct LineDevice {
    tun: Tun,
    /// The kernel's number of it. Another device of that name is not ours.
    index: Option<u32>,
    /// The kernel gives and takes no packets by it any more.
    broken: bool,
    name: String,
    mtu: usize,
    addresses: Vec<Own>,
    routes: Vec<IpPrefix>,
    /// What PPP agreed on.
    agreed: Option<Agreed>,
    next: Instant,
    failing: Option<Failing>,
}

/// An address of the device.
#[derive(Clone, PartialEq, Eq)]
struct Own {
    address: IpAddr,
    /// The other end, where it has no network.
    peer: Option<IpAddr>,
    /// What the kernel reaches by the device because of it.
    network: IpPrefix,
}

impl Own {
    fn words(&self) -> Vec<String> {
        match self.peer {
            Some(peer) => vec![self.address.to_string(), "peer".into(), peer.to_string()],
            None => vec![format!("{}/{}", self.address, self.network.bits)],
        }
    }
}

fn host(address: IpAddr) -> IpPrefix {
    IpPrefix { address, bits: width(address) }
}

/// What became of the device since it was looked at last.
pub(super) enum Loss {
    /// It lacked this, which is put back.
    PutBack(String),
    /// It lacks this, and cannot be given it.
    Missing(String),
}

impl LineDevice {
    /// Makes the device, with its addresses and routes. They vanish with it.
    pub(crate) fn open(config: &SerialIp) -> Result<Self, SerialError> {
        let own = |own: &IpPrefix| Own {
            address: own.address,
            peer: None,
            network: IpPrefix { address: first_of(*own), bits: own.bits },
        };
        let mut device = Self {
            tun: Tun::open(&config.name)?,
            index: None,
            broken: false,
            name: config.name.clone(),
            mtu: config.line.mtu,
            addresses: config.addresses.iter().map(own).collect(),
            routes: config.routes.clone(),
            agreed: None,
            next: Instant::ZERO,
            failing: None,
        };
        device.begin();
        device.set_up()?;
        Ok(device)
    }
    fn begin(&mut self) {
        self.index = wavelane_host::interface_index(&self.name);
        self.broken = false;
        // A line has no room for what the kernel says to neighbours.
        no_made_up_address(&self.name);
    }
    /// One packet from the kernel; nothing while the device is gone.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Option<usize> {
        if self.broken {
            return None;
        }
        self.tun.read(buffer).unwrap_or_else(|_| {
            self.broken = true;
            self.next = Instant::ZERO;
            None
        })
    }
    pub(super) fn write(&self, packet: &[u8]) -> io::Result<()> {
        self.tun.write(packet)
    }
    /// What is readable when the kernel has a packet.
    pub(super) fn packets(&self) -> Option<BorrowedFd<'_>> {
        (!self.broken).then(|| self.tun.as_fd())
    }
    /// When [`Self::look`] has something to do.
    pub(super) fn deadline(&self) -> Instant {
        self.next
    }
    /// Gives the device what PPP agreed on, in place of what it agreed on before.
    pub(super) fn agree(&mut self, config: &SerialIp, now: Agreed) -> Result<(), ToolError> {
        // The other end may take less than the file says.
        self.mtu = config.line.mtu.min(now.mtu.into());
        let (local, remote) = (IpAddr::V4(now.local), IpAddr::V4(now.remote));
        let before = self.agreed.replace(now).map(|before| IpAddr::V4(before.remote));
        if config.addresses.is_empty() {
            let given = vec![Own { address: local, peer: Some(remote), network: host(remote) }];
            for old in self.addresses.iter().filter(|old| !given.contains(old)) {
                let words = old.words();
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                let _ = run("ip", &[&["address", "del"], &words[..], &["dev", &self.name]].concat(), "");
            }
            self.addresses = given;
        } else {
            // What the file says stands already; the other end is reached by the line also where no network of it holds its address.
            let lacks = |remote: &IpAddr| !config.addresses.iter().any(|own| own.contains(*remote));
            if let Some(old) = before.filter(|old| lacks(old) && *old != remote) {
                let _ = run("ip", &["-4", "route", "del", &old.to_string(), "dev", &self.name], "");
            }
            self.routes = config.routes.iter().copied().chain(Some(remote).filter(lacks).map(host)).collect();
        }
        self.set_up()
    }
    /// Gives the device what it lacks; all that can be given, and the first failure.
    fn set_up(&mut self) -> Result<(), ToolError> {
        let (name, mtu) = (self.name.as_str(), self.mtu.to_string());
        let mut done = Ok(());
        let mut ip = |words: &[&str]| {
            let step = run("ip", words, "").map(drop);
            done = std::mem::replace(&mut done, Ok(())).and(step);
        };
        if self.index.and_then(interface_mtu) != u32::try_from(self.mtu).ok() {
            ip(&["link", "set", "dev", name, "mtu", &mtu]);
            no_made_up_address(name);
        }
        let there = wavelane_host::addresses_of(name);
        for own in self.addresses().filter(|own| !there.contains(&own.address)) {
            let words = own.words();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            ip(&[&["address", "replace"], &words[..], &["dev", name]].concat());
        }
        if wavelane_host::interface_is_up(name) != Some(true) {
            ip(&["link", "set", "dev", name, "up"]);
        }
        for (route, source) in self.routes_lacking() {
            let (family, network) = (Family::of(&route).ip_flag(), prefix_text(&route));
            // As the kernel makes it with an address.
            let source = source.map(|source| match source {
                IpAddr::V4(own) => format!("proto kernel scope link src {own}"),
                IpAddr::V6(_) => "proto kernel metric 256".into(),
            });
            let source: Vec<&str> = source.iter().flat_map(|words| words.split(' ')).collect();
            ip(&[&[family, "route", "replace", &network, "dev", name], &source[..]].concat());
        }
        done
    }
    /// Its addresses of the IP versions that this host uses now.
    fn addresses(&self) -> impl Iterator<Item = &Own> {
        let here: Vec<Family> = Family::here().collect();
        self.addresses.iter().filter(move |own| here.contains(&Family::of_address(own.address)))
    }
    /// Routes that do not lead to it, and the address of this host's that belongs to them.
    fn routes_lacking(&self) -> Vec<(IpPrefix, Option<IpAddr>)> {
        let here: Vec<Family> = Family::here().collect();
        let there = self.index.and_then(|index| networks_by(index).ok()).unwrap_or_default();
        let own = self.addresses().filter(|own| own.peer.is_some() || own.network.bits < width(own.address));
        let of_own = own.map(|own| (own.network, Some(own.address)));
        let of_file = self.routes.iter().map(|route| (*route, None));
        let all = of_own.chain(of_file).filter(|(route, _)| here.contains(&Family::of(route)));
        all.filter(|(route, _)| !there.contains(route)).collect()
    }
    /// What it lacks, in words.
    fn lacking(&self) -> Vec<String> {
        let name = self.name.as_str();
        if self.broken || self.index.is_none() || wavelane_host::interface_index(name) != self.index {
            return vec![format!("the device {name} itself")];
        }
        let up = (wavelane_host::interface_is_up(name) != Some(true)).then(|| "the state up".to_owned());
        let mtu = self.index.and_then(interface_mtu) != u32::try_from(self.mtu).ok();
        let mtu = mtu.then(|| format!("the MTU {}", self.mtu));
        let there = wavelane_host::addresses_of(name);
        let addresses = self.addresses().filter(|own| !there.contains(&own.address));
        let addresses = addresses.map(|own| format!("the address {}", own.words().join(" ")));
        let routes = self.routes_lacking().into_iter().map(|(route, _)| format!("the route {}", prefix_text(&route)));
        up.into_iter().chain(mtu).chain(addresses).chain(routes).collect()
    }
    /// Puts back what another program took away. Returns what came of it, if that is news.
    pub(super) fn look(&mut self, now: Instant) -> Option<Loss> {
        if now < self.next {
            return None;
        }
        let news = self.put_back(now);
        let end = realtime::now();
        self.next = end + LOOK_EVERY.max(end.since(now).times(REST_PER_LOOK).min(LOOK_EVERY.times(2)));
        news
    }
    fn put_back(&mut self, now: Instant) -> Option<Loss> {
        let lacking = self.lacking();
        let marks = |all: &[String]| all.iter().map(|one| one.clone().into_bytes()).collect::<Vec<_>>();
        if lacking.is_empty() {
            self.failing = None;
            return None;
        }
        if self.failing.as_ref().is_some_and(|failing| failing.rests(now, &marks(&lacking))) {
            return None;
        }
        let done = self.make_anew().and_then(|()| self.set_up().map_err(SerialError::from));
        let left = self.lacking();
        let before = self.failing.take();
        if left.is_empty() {
            return Some(Loss::PutBack(lacking.join(", ")));
        }
        // Until it is whole again this is told once.
        let is_new = before.is_none();
        self.failing = Some(Failing::again(now, before, marks(&left)));
        let why = done.err().map_or("it is gone again at once".into(), |why| why.to_string());
        is_new.then(|| Loss::Missing(format!("{}: {why}", left.join(", "))))
    }
    /// Makes the device, if somebody deleted it or another one has its name.
    fn make_anew(&mut self) -> Result<(), SerialError> {
        let there = wavelane_host::interface_index(&self.name);
        if !self.broken && there.is_some() && there == self.index {
            return Ok(());
        }
        self.tun = Tun::open(&self.name)?;
        self.begin();
        Ok(())
    }
    /// Whether it lacks something that it could not be given.
    pub(super) fn lacks(&self) -> bool {
        self.failing.is_some()
    }
}
