//! The source document's forward error correction: lengths to the microsecond, losses against the code's arithmetic.

use super::drive::*;
use wavelane_base::{FrameMeta, Instant, Machine, Ratio, Seed, Span};
use wavelane_channel::wifi::{
    BitErrors, ErrorsPer, Fec, FecCode, FecFrames, Handling, Phy, Rules, Wifi, WifiConfig, WifiEvent, port,
};

const DSSS_2: (Phy, u64) = (Phy::Dsss, 20);
/// Rules whose frames have 34 bytes around the packet.
const RULES: Rules = Rules::ns2_2001();

/// A cell that is bad from soon after the start.
fn bad_cell(in_bad: Ratio, fec: Option<Fec>) -> WifiConfig {
    let errors = BitErrors {
        good: Span::from_millis(1),
        bad: Span::from_secs(3_000),
        in_good: Ratio::ZERO,
        in_bad,
        per: ErrorsPer::Cell,
    };
    let slow = Some(mbit(10));
    WifiConfig { errors: Some(errors), fec, answer_rate: slow, rts_rate: slow, ..cell(DSSS_2, RULES, 2) }
}
fn fec(code: FecCode, frames: FecFrames) -> Option<Fec> {
    Some(Fec { code, frames, feedback: Span::ZERO })
}

/// When a frame of `octets` handed in at `start` has been acknowledged, back-off left out.
fn exchange(config: &WifiConfig, start: Instant, octets: usize) -> u64 {
    let mut wifi = Wifi::new(Seed(1), "air", config).unwrap();
    wifi.handle_frame(start, port(0, 1), &mut vec![0; octets], FrameMeta::default());
    let mut begun = Instant::ZERO;
    loop {
        let now = wifi.poll_timeout().unwrap().at;
        wifi.handle_timeout(now);
        if begun == Instant::ZERO && wifi.tally(0).data_sent + wifi.tally(0).rts_sent == 1 {
            begun = now;
        }
        if let Some(WifiEvent::Acknowledged { at, .. }) = wifi.poll_event() {
            return at.since(begun).as_micros();
        }
    }
}

#[test]
fn coded_frames_last_longer_and_only_in_the_bad_state() {
    // 1,000 + 34 bytes at 2 Mbit/s: 192 + 4 us a byte; SIFS 10; ACK, CTS 14 and RTS 20 bytes at 1 Mbit/s.
    let (plain, late) = (192 + 1_034 * 4, us(2_000_000));
    let ack = |octets: u64| 192 + octets * 8;
    assert_eq!(exchange(&bad_cell(Ratio::ZERO, None), late, 1_000), plain + 10 + ack(14));
    for (code, data, answer, rts) in [
        // 1,034, 14 and 20 over 0.71.
        (FecCode::Residual { ber: Ratio::ZERO, rate: Ratio::new(71, 100).unwrap() }, 1_457, 20, 29),
        (FecCode::RS_255_181, 1_034 + 6 * 74, 14 + 74, 20 + 74),
        // 8,272 bits are 1,655 symbols of 5 in 76 blocks of 22; 112 are 23 in 2; 160 are 32 in 2.
        (FecCode::RS_31_22, (1_655 + 76 * 9) * 5 / 8 + 1, (23 + 18) * 5 / 8 + 1, (32 + 18) * 5 / 8 + 1),
    ] {
        let on_data = bad_cell(Ratio::ZERO, fec(code, FecFrames::Data));
        assert_eq!(exchange(&on_data, late, 1_000), 192 + data * 4 + 10 + ack(14), "{code:?}");
        let on_all = bad_cell(Ratio::ZERO, fec(code, FecFrames::All));
        assert_eq!(exchange(&on_all, late, 1_000), 192 + data * 4 + 10 + ack(answer), "{code:?}");
        let rts_first = WifiConfig { rts_threshold: 0, ..on_all };
        let before = ack(rts) + 10 + ack(answer) + 10;
        assert_eq!(exchange(&rts_first, late, 1_000), before + 192 + data * 4 + 10 + ack(answer), "{code:?}");
        // Good until it turns bad: the frame has begun by then.
        assert_eq!(exchange(&on_data, Instant::ZERO, 1_000), plain + 10 + ack(14), "{code:?}");
    }
    // A sender that learns late still thinks the channel good.
    let stale = Fec { feedback: Span::from_millis(20), ..fec(FecCode::RS_31_22, FecFrames::Data).unwrap() };
    assert_eq!(exchange(&bad_cell(Ratio::ZERO, Some(stale)), us(10_000), 1_000), plain + 10 + ack(14));
}

/// Frames without acknowledgement in the bad state at a bit error rate of 1/100: loss by size as the arithmetic of the
/// code gives it, computed apart from this code.
#[test]
fn losses_are_those_of_the_code() {
    let one_in_100 = Ratio::new(1, 100).unwrap();
    let residual = |ber: f64, octets: usize| 1.0 - (1.0 - ber).powi(octets as i32 * 8);
    for (code, octets, expected) in [
        (Some(FecCode::RS_31_22), 134, 0.15),
        (Some(FecCode::RS_31_22), 534, 0.48),
        (Some(FecCode::RS_63_45), 1_034, 0.10),
        (Some(FecCode::RS_63_45), 2_034, 0.19),
        (Some(FecCode::RS_255_181), 2_034, 8.8e-4),
        (Some(FecCode::RESIDUAL_31_22), 134, residual(5.7e-4, 134)),
        (Some(FecCode::RESIDUAL_63_45), 1_034, residual(9.8e-5, 1_034)),
        (Some(FecCode::RESIDUAL_255_181), 2_034, residual(1.6e-6, 2_034)),
        (None, 14 + 34, residual(1e-2, 48)),
    ] {
        let config = bad_cell(one_in_100, code.and_then(|code| fec(code, FecFrames::Data)));
        let mut wifi = Wifi::new(Seed(4), "air", &config).unwrap();
        let (frames, no_ack) = (20_000, Handling { no_ack: true, ..Handling::default() });
        let mut now = us(1_000_000);
        for _ in 0..frames {
            wifi.hand_in(now, port(0, 1), &vec![0; octets - 34], FrameMeta::default(), no_ack);
            while let Some(wakeup) = wifi.poll_timeout() {
                now = wakeup.at;
                wifi.handle_timeout(now);
            }
            while wifi.poll_transmit(now, port(1, 0), &mut [0; 4_096], 1).is_some() {}
            while wifi.poll_event().is_some() {}
        }
        let lost = 1.0 - wifi.tally(1).received as f64 / f64::from(frames);
        let sigma = (expected * (1.0 - expected) / f64::from(frames)).sqrt();
        // The expectations have two digits.
        assert!((lost - expected).abs() < 0.06 * expected + 4.0 * sigma, "{code:?} {octets} B: {lost} {expected}");
    }
}

#[test]
fn impossible_codes_are_refused_with_a_remedy() {
    let refused = |config: WifiConfig| Wifi::new(Seed(1), "air", &config).map(|_| ()).unwrap_err().to_string();
    let with = |code| bad_cell(Ratio::ZERO, fec(code, FecFrames::Data));
    let odd = refused(with(FecCode::ReedSolomon { length: 32, data: 22 }));
    assert!(odd.contains("RS(32,22) is no Reed-Solomon code") && odd.contains("31, 63"), "{odd}");
    assert!(refused(with(FecCode::ReedSolomon { length: 31, data: 30 })).contains("at least 2 more"));
    assert!(refused(with(FecCode::Residual { ber: Ratio::ZERO, rate: Ratio::ZERO })).contains("such as 71/100"));
    let nothing = refused(WifiConfig { errors: None, ..with(FecCode::RS_31_22) });
    assert!(nothing.contains("state the bit errors, or leave the correction out"), "{nothing}");
    let mut old = with(FecCode::RS_31_22);
    old.fec.as_mut().unwrap().feedback = Span::from_secs(1);
    assert!(refused(old).contains("choose a shorter age"));
}
