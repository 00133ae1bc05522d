use super::*;

/// The least whole dB at which a frame of `octets` is lost with a chance of `per` at most.
fn threshold(kind: usize, octets: i32, per: f64) -> i16 {
    let loss = |snr: &i16| 1.0 - power(survival(kind, *snr), f64::from(8 * octets));
    (-10..50).find(|snr| loss(snr) <= per).unwrap_or(50)
}

/// 802.11 demands 10 % loss at most of 4,096 bytes at the power of Table 19-23, which allows 10 dB of noise figure and
/// 5 dB for the implementation above -101 dBm of thermal noise in 20 MHz: no ideal receiver may need more than that.
#[test]
fn every_rate_keeps_the_sensitivity_of_the_standard() {
    for (kind, sensitivity_dbm) in [-82, -79, -77, -74, -70, -66, -65, -64].into_iter().enumerate() {
        let demanded = sensitivity_dbm + 101 - 15;
        let needed = threshold(kind, 4_096, 0.1);
        assert!(needed <= demanded && needed >= demanded - 5, "MCS {kind}: {needed} dB, demanded {demanded}");
    }
}

#[test]
fn faster_rates_need_more_and_small_frames_less() {
    let all: Vec<i16> = (0..8).map(|kind| threshold(kind, 1_500, 0.1)).collect();
    assert!(all.windows(2).all(|pair| pair[0] < pair[1]), "{all:?}");
    assert!((0..8).all(|kind| threshold(kind, 32, 0.1) <= all[kind]));
}

/// Values of the error function from tables.
#[test]
fn erfc_is_that_of_tables() {
    for (x, value) in [(0.0, 1.0), (0.5, 0.479_500_1), (1.0, 0.157_299_2), (2.0, 0.004_677_7)] {
        assert!((erfc(x) - value).abs() < 3e-7, "{x}: {}", erfc(x));
    }
}
