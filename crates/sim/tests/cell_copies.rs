//! How often a frame is copied on its way from a host through a radio cell to another host.
//!
//! Buffers are used again, so that allocations say nothing of it: this binary brings its own `memcpy`, which counts.
#![allow(unsafe_code, reason = "a memcpy that counts takes raw pointers")]

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use wavelane_run::{Backend, CaptureExtent, RunContext};
use wavelane_scenario::Scenario;
use wavelane_sim::SimBackend;

/// Octets of a frame as an IP packet: of a datagram of 1472. Nothing else of this run is as long.
const FRAME: usize = 1_500;
/// Into the cell, and out of it.
const COPIES: u64 = 2;

static COPIED: AtomicU64 = AtomicU64::new(0);

/// The C library's, and it counts what is as long as a frame.
///
/// # Safety
/// As of `memcpy`: both are valid for `n` octets and do not overlap.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, n: usize) -> *mut u8 {
    COPIED.fetch_add(u64::from(n == FRAME), Ordering::Relaxed);
    for at in 0..n {
        // SAFETY: `at` lies within both. Volatile, for else the compiler makes this a call of memcpy.
        unsafe { to.add(at).write_volatile(from.add(at).read()) };
    }
    to
}

// One test, since the count is of the whole process.
#[test]
fn a_frame_through_a_cell_is_copied_twice() {
    let text = std::fs::read_to_string("../../scenarios/wifi/saturated-cell.toml").expect("it is committed");
    let scenario = Scenario::parse(&text.replace("10 s", "2 s"), Path::new(".")).expect("a scenario");
    let mut context = RunContext {
        out: Path::new("."),
        label: String::new(),
        captures: CaptureExtent::Off,
        progress: &mut |_| {},
        cancelled: &AtomicBool::new(false),
    };
    let raw = SimBackend.run_stack(&scenario, scenario.stacks[0], scenario.seed, &mut context).expect("it runs");
    let frames = raw.flows.iter().map(|flow| flow.octets).sum::<u64>() / 1_472;
    let copied = COPIED.load(Ordering::Relaxed);
    println!("{copied} copies of {frames} frames");
    // Those that still wait at the end, three in each of ten stations, have been copied into it.
    assert!(frames > 3_000 && copied >= COPIES * frames, "the count fails: {copied} copies of {frames} frames");
    assert!(copied <= COPIES * (frames + 100), "{copied} copies of {frames} frames");
}
