//! Gateways joined by serial lines: pseudo-terminals, and threads for the cables between them.

mod ip;
mod lane;
mod modem;

use crate::common::*;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use wavelane_base::Span;
use wavelane_host::realtime;
use wavelane_host::tty::Pty;

/// What a full line of 115.2 kbit/s may cost an unoptimised build on a busy machine: twice the aim, and what was measured of it (0.03 both ways).
const OF_A_CORE: f64 = 0.06;

/// What no load of others explains: a loop that waits for nothing takes a whole core.
const OF_A_CORE_AT_ALL: f64 = 0.2;

/// Judges what a line cost. Where others want the processors, their caches and clock are shared too and the same work takes longer
/// (0.068 beside a load of 20): then it is only no loop.
pub(super) fn costs_little(of_a_core: f64, what: &str) {
    assert!(of_a_core <= OF_A_CORE_AT_ALL, "{of_a_core:.4} of a core for {what}");
    // Linux's share of the last ten seconds in which something waited for a processor.
    let pressure = std::fs::read_to_string("/proc/pressure/cpu").unwrap_or_default();
    let waited: Option<f64> =
        pressure.split_whitespace().find_map(|word| word.strip_prefix("avg10=")).and_then(|share| share.parse().ok());
    if of_a_core > OF_A_CORE && waited.is_some_and(|percent| percent > 30.0) {
        return eprintln!("SKIPPED (1 test): {of_a_core:.4} of a core says nothing while others want the processors");
    }
    assert!(of_a_core <= OF_A_CORE, "{of_a_core:.4} of a core for {what}");
}

/// Two ports, joined as by a null-modem cable, which has no rate of its own: who writes keeps the rate.
pub(super) struct Cable {
    pub(super) ports: [String; 2],
    stop: Arc<AtomicBool>,
    carried: Arc<[AtomicU64; 2]>,
    thread: Option<JoinHandle<()>>,
}

impl Cable {
    pub(super) fn new() -> Self {
        let mut ends = [Pty::open().unwrap(), Pty::open().unwrap()];
        let ports = [0, 1].map(|end: usize| ends[end].port().to_owned());
        let (stop, carried) = (Arc::new(AtomicBool::new(false)), Arc::new([AtomicU64::new(0), AtomicU64::new(0)]));
        let (stopped, counts) = (Arc::clone(&stop), Arc::clone(&carried));
        let carry = move || {
            while !stopped.load(Ordering::Relaxed) {
                let mut moved = false;
                for from in [0, 1] {
                    let mut octets = [0; 256];
                    let Ok(Some(len)) = ends[from].read(&mut octets) else { continue };
                    counts[from].fetch_add(len as u64, Ordering::Relaxed);
                    // What the other end has no room for is lost, as on a wire.
                    let _ = ends[1 - from].write(&octets[..len]);
                    moved = true;
                }
                if !moved {
                    // An end that nobody has open would be readable at once, for ever.
                    pause(std::time::Duration::from_millis(1));
                    let [a, b] = &ends;
                    let _ = realtime::wait(&[a.as_fd(), b.as_fd()], realtime::now() + Span::from_millis(5));
                }
            }
        };
        Self { ports, stop, carried, thread: Some(std::thread::spawn(carry)) }
    }
    /// Octets that left each end.
    pub(super) fn carried(&self) -> [u64; 2] {
        [0, 1].map(|end: usize| self.carried[end].load(Ordering::Relaxed))
    }
    /// Both ports vanish.
    pub(super) fn pull_out(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        self.pull_out();
    }
}

/// Names that stay while the ports behind them change, as udev's do.
pub(super) struct Names([PathBuf; 2]);

impl Names {
    pub(super) fn new(world: &World) -> Self {
        Self(["port-a", "port-b"].map(|name| world.dir.join(name)))
    }
    pub(super) fn point_to(&self, cable: &Cable) {
        for (name, port) in self.0.iter().zip(&cable.ports) {
            let _ = std::fs::remove_file(name);
            std::os::unix::fs::symlink(port, name).unwrap();
        }
    }
    pub(super) fn of(&self, end: usize) -> String {
        self.0[end].display().to_string()
    }
}

/// The `n`-th TOML block of the guide's page, with the port of `end` and the test's address.
pub(super) fn of_guide(n: usize, port: &str) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/serial.md");
    let text = std::fs::read_to_string(page).unwrap();
    let block = text.split("```toml\n").nth(n).unwrap().split("```").next().unwrap();
    let device = block.lines().find(|line| line.starts_with("device = ")).unwrap();
    block.replace(device, &format!("device = \"{port}\"")).replace("203.0.113.7", "10.2.0.2")
}

/// A lane's table.
pub(super) fn table(port: &str, keys: &str) -> String {
    format!("[[peer.lane]]\nmedium = \"serial\"\ndevice = \"{port}\"\n{keys}\n")
}

/// A configuration whose peer has `lanes` and no address.
pub(super) fn with_lanes(world: &World, name: &str, lanes: &str) -> PathBuf {
    let (extra, rest) =
        if name == "a" { ("", "[intercept]\ninterfaces = [\"lan0\"]") } else { ("source = \"keep\"", "") };
    let config = world.write(name, Outside::V4, extra, &format!("{lanes}\n{rest}"));
    edit(&config, &format!("address = \"10.2.0.{}:4780\"\n", if name == "a" { 2 } else { 1 }), "");
    config
}
