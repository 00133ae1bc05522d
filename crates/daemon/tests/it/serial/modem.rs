//! Lines that begin with a call: two modems at pseudo-terminals, and the exchange between them.

use self::hayes::{Config, Exchange};
use super::{of_guide, with_lanes};
use crate::common::*;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use wavelane_base::Span;
use wavelane_host::realtime;
use wavelane_host::tty::Pty;

#[path = "../../../../../testing/modem/mod.rs"]
#[allow(dead_code, reason = "each of its users needs a part")]
mod hayes;

/// Octets of the line in a turn, which lasts [`TURN`]: some 38 kbit/s, for a modem takes no more than its line carries.
const TURN_OCTETS: usize = 24;
const TURN: Span = Span::from_millis(5);

/// Two ports with modems of the numbers 1 and 2.
struct Telephones {
    ports: [String; 2],
    stop: Arc<AtomicBool>,
    cut: Arc<AtomicBool>,
    /// Modems with a carrier.
    calls: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl Telephones {
    fn new() -> Self {
        let mut ends = [Pty::open().unwrap(), Pty::open().unwrap()];
        let ports = [0, 1].map(|end: usize| ends[end].port().to_owned());
        let (stop, cut) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let calls = Arc::new(AtomicUsize::new(0));
        let carriers = Arc::clone(&calls);
        let (stopped, is_cut) = (Arc::clone(&stop), Arc::clone(&cut));
        let config = Config { training: Span::from_millis(300), ..Config::default() };
        let mut exchange = Exchange::new(&[("1", config), ("2", config)]);
        let carry = move || {
            let mut was_cut = false;
            while !stopped.load(Ordering::Relaxed) {
                let now = realtime::now();
                let cut = is_cut.load(Ordering::Relaxed);
                if std::mem::replace(&mut was_cut, cut) != cut {
                    exchange.set_cut(cut);
                }
                exchange.handle_timeout(now);
                for (at, end) in ends.iter_mut().enumerate() {
                    let mut octets = [0; TURN_OCTETS];
                    if let Ok(Some(len)) = end.read(&mut octets) {
                        exchange.push(now, at, &octets[..len]);
                    }
                }
                for (at, end) in ends.iter_mut().enumerate() {
                    let mut out = Vec::new();
                    exchange.poll_computer(at, &mut out);
                    let _ = end.write(&out);
                }
                carriers.store([0, 1].iter().filter(|at| exchange.modem(**at).carrier()).count(), Ordering::Relaxed);
                let _ = realtime::wait(&[] as &[BorrowedFd<'_>], now + TURN);
            }
        };
        Self { ports, stop, cut, calls, thread: Some(std::thread::spawn(carry)) }
    }
}

impl Drop for Telephones {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

/// The guide's dialled line: one end calls and the other answers; after a cut the call is made again by itself and the flow goes on.
#[test]
fn a_dialled_line_carries_a_flow_and_is_dialled_again_after_a_cut() {
    let _alone = alone();
    if !root_or_skip("serial_modem") {
        return;
    }
    let world = World::new("modem");
    world.serve(7, echo);
    let telephones = Telephones::new();
    let start = |name: &str, n: usize, end: usize| {
        let lanes = of_guide(n, &telephones.ports[end]).replace("5551234", "2");
        world.spawn(name, &with_lanes(&world, name, &lanes))
    };
    let (_b, a) = (start("b", 6, 1), start("a", 5, 0));
    a.wait_log("peer 'b' is up");
    transfer_during(&world, 4_000, || {});
    transfer_during(&world, 12_000, || {
        // The modem's word comes in mid-frame, where it might be data: real time: 20 s, until it cannot be.
        telephones.cut.store(true, Ordering::Relaxed);
        wait_for("the modem to say that the call ended", || {
            a.status().to_string().contains("its modem has no connection: ")
        });
        telephones.cut.store(false, Ordering::Relaxed);
    });
}

/// An orderly stop closes the PPP link with a word and hangs up, by `+++` and `ATH` because a pseudo-terminal has no DTR.
#[test]
fn an_orderly_stop_hangs_up() {
    let _alone = alone();
    if !root_or_skip("serial_hang_up") {
        return;
    }
    let world = World::new("hangup");
    let telephones = Telephones::new();
    let chat = ["\"\" ATZ OK ATE0 OK ATDT2 CONNECT", "\"\" ATZ OK ATE0S0=1 OK \\c TIMEOUT 3600 CONNECT"];
    let start = |name: &str, end: usize| {
        let keys = format!("framing = \"ppp\"\naddresses = [\"10.9.0.{}/30\"]\nchat = '{}'", end + 1, chat[end]);
        super::ip::start(&world, name, &super::ip::serial(&telephones.ports[end], &keys))
    };
    let (b, mut a) = (start("b", 1), start("a", 0));
    [&a, &b].into_iter().for_each(super::ip::carries);
    // real time: 5 s, the silences around `+++` and DTR
    assert_eq!(a.stop(), Some(0));
    b.wait_log("PPP is down: the other end closed the link");
    wait_for("the other modem to have no carrier", || {
        b.status().serial.unwrap().unused.unwrap_or_default().contains("its modem ")
    });
    wait_for("the call's end", || telephones.calls.load(Ordering::Relaxed) == 0);
}
