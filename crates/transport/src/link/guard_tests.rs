//! When media get their symbols.

use super::*;
use wavelane_base::Rate;

/// What datagrams carry matters to nobody here.
type Guard = super::Guard<()>;

fn path(burst: Option<Span>) -> PathView {
    PathView { rtt: Span::from_millis(100), rate: Rate::from_bps(20_000_000), loss: 0.05, burst, ..PathView::default() }
}

fn at(ms: u64) -> Instant {
    Instant::from_millis(1_000 + ms)
}

/// Media datagrams `numbers`, one every 4 ms from `begin` on; symbols that go are taken.
fn send(guard: &mut Guard, begin: u64, numbers: core::ops::Range<u64>) -> usize {
    let first = numbers.start;
    let mut symbols = 0;
    for number in numbers {
        let now = at(begin + (number - first) * 4);
        guard.end_gathered(now, &path(None));
        while guard.is_due(now) {
            symbols += usize::from(guard.take_symbol().is_some());
        }
        guard.protect(now, number, &[number as u8; 100], Why::Media);
    }
    symbols
}

#[test]
fn a_symbol_follows_every_ten_milliseconds_of_media() {
    let mut guard = Guard::default();
    // Three packets in ten milliseconds: 100 of them are 33 stretches and one that still waits.
    assert_eq!(send(&mut guard, 0, 0..100), 33);
    assert_eq!(guard.poll_timeout().map(|wakeup| wakeup.at), Some(at(396 + 10)));
}

#[test]
fn many_at_once_do_not_wait_for_the_time() {
    let mut guard = Guard::default();
    for number in 0..GATHERED_MAX as u64 {
        assert!(!guard.is_due(at(0)));
        guard.protect(at(0), number, &[1; 100], Why::Media);
        guard.end_gathered(at(0), &path(None));
    }
    assert!(guard.is_due(at(0)));
    // Far apart in numbers, because bulk goes beside them: the window must not lose the first.
    let mut guard = Guard::default();
    guard.protect(at(0), 0, &[1; 100], Why::Media);
    guard.protect(at(0), GATHERED_SPAN, &[1; 100], Why::Media);
    guard.end_gathered(at(0), &path(None));
    assert_eq!(guard.take_symbol().map(|symbol| symbol.mask), Some(1 | 1 << GATHERED_SPAN));
}

#[test]
fn an_unpaid_symbol_is_retried_over_more_frames() {
    let mut guard = Guard::default();
    send(&mut guard, 0, 0..3);
    guard.end_gathered(at(10), &path(None));
    assert!(guard.is_due(at(10)));
    guard.postpone(at(10));
    assert!(!guard.is_due(at(10)));
    assert_eq!(guard.poll_timeout().map(|wakeup| wakeup.at), Some(at(15)));
    guard.protect(at(12), 3, &[3; 100], Why::Media);
    guard.end_gathered(at(15), &path(None));
    assert_eq!(guard.take_symbol().map(|symbol| symbol.mask), Some(0b1111));
}

#[test]
fn bursts_get_no_symbols() {
    let mut guard = Guard::default();
    send(&mut guard, 0, 0..3);
    guard.end_gathered(at(10), &path(Some(BURSTY)));
    assert!(!guard.is_due(at(10)));
    assert_eq!(guard.poll_timeout(), None);
}
