//! A cell that has warmed up allocates nothing more, whatever it carries.
#![allow(clippy::unwrap_used, reason = "tests may fail")]
#![allow(unsafe_code, reason = "a global allocator, which counts, is an unsafe trait")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};
use wavelane_base::{FrameMeta, Instant, Machine, Rate, Ratio, Seed, Span};
use wavelane_channel::wifi::{
    BitErrors, CapturePoint, Category, Edca, ErrorsPer, Fec, FecCode, FecFrames, Handling, Phy, Rules, Wifi,
    WifiConfig, port,
};

struct Counting;
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(at, layout) }
    }
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract.
        unsafe { System.realloc(at, layout, size) }
    }
}
#[global_allocator]
static COUNTING: Counting = Counting;

/// Allocations between 5 and 10 s of a cell whose stations are all backlogged towards station 0, and frames sent.
fn steady(config: &WifiConfig, capture: bool) -> (u64, u64) {
    let stations = config.reach.stations();
    let captures = if capture { vec![CapturePoint::Medium, CapturePoint::Station(0)] } else { Vec::new() };
    let config = WifiConfig { captures, snaplen: 256, ..config.clone() };
    let mut wifi = Wifi::new(Seed(1), "air", &config).unwrap();
    let (mut buf, mut captured) = (vec![0; 4_096], Vec::with_capacity(4_096));
    let (warm, end) = (Instant::from_secs(5), Instant::from_secs(10));
    let sent = |wifi: &Wifi| (0..stations).map(|s| wifi.tally(s).data_sent).sum::<u64>();
    let mut before = None;
    let mut now = Instant::ZERO;
    while now < end {
        for station in 1..stations {
            for category in [Category::BestEffort, Category::Voice] {
                let handling = Handling { category, ..Handling::default() };
                while wifi.waiting_in(station, category) < 3 {
                    wifi.hand_in(now, port(station, 0), &[0; 1_500], FrameMeta::default(), handling);
                }
            }
        }
        now = wifi.poll_timeout().unwrap().at;
        if now >= warm && before.is_none() {
            before = Some((ALLOCATIONS.load(Ordering::Relaxed), sent(&wifi)));
        }
        wifi.handle_timeout(now);
        while let Some(ready) = wifi.next_ready() {
            wifi.poll_transmit(now, ready, &mut buf, 1).unwrap();
        }
        while wifi.poll_event().is_some() {}
        while wifi.poll_capture(&mut captured).is_some() {}
    }
    let (allocations, frames) = before.unwrap();
    (ALLOCATIONS.load(Ordering::Relaxed) - allocations, sent(&wifi) - frames)
}

// One test, since the count is of the whole process.
#[test]
fn a_warm_cell_allocates_nothing() {
    let dcf = WifiConfig::new(Phy::Ofdm, Rate::from_bps(54_000_000), Rules::standard(), 21);
    let edca = WifiConfig { edca: Some(Edca::standard(Phy::Ofdm)), ..dcf.clone() };
    let rts = WifiConfig { rts_threshold: 0, ..dcf.clone() };
    let errors = BitErrors {
        good: Span::from_millis(100),
        bad: Span::from_millis(33),
        in_good: Ratio::new(1, 1_000_000).unwrap(),
        in_bad: Ratio::new(1, 1_000).unwrap(),
        per: ErrorsPer::Station { hub: 0 },
    };
    let fec = Fec { code: FecCode::RS_31_22, frames: FecFrames::All, feedback: Span::ZERO };
    let coded = WifiConfig { errors: Some(errors), fec: Some(fec), ..dcf.clone() };
    for (what, config, capture) in [
        ("DCF", &dcf, false),
        ("EDCA", &edca, false),
        ("RTS", &rts, false),
        ("errors and FEC", &coded, false),
        ("captured", &edca, true),
    ] {
        let (allocations, frames) = steady(config, capture);
        println!("{what}: {allocations} allocations for {frames} data frames");
        assert!(frames > 5_000, "{what}: {frames}");
        assert_eq!(allocations, 0, "{what}");
    }
}
