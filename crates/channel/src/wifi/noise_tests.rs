use super::*;

/// The least whole dB at which a frame of `octets` is lost with a chance of `per` at most.
fn threshold(kind: usize, octets: i32, per: f64) -> i16 {
    let loss = |snr: &i16| 1.0 - power(survival(kind, *snr, 1.0), f64::from(8 * octets));
    (-10..50).find(|snr| loss(snr) <= per).unwrap_or(50)
}

/// 802.11 demands 10 % loss at most of 4,096 bytes at the power of Tables 19-23 and 21-25, which allows 10 dB of noise figure and
/// 5 dB for the implementation above -101 dBm of thermal noise in 20 MHz: no ideal receiver may need more than that.
#[test]
fn every_rate_keeps_the_sensitivity_of_the_standard() {
    for (kind, sensitivity_dbm) in [-82, -79, -77, -74, -70, -66, -65, -64, -59, -57].into_iter().enumerate() {
        let demanded = sensitivity_dbm + 101 - 15;
        let needed = threshold(kind, 4_096, 0.1);
        assert!(needed <= demanded && needed >= demanded - 5, "MCS {kind}: {needed} dB, demanded {demanded}");
    }
}

/// Where 10 % of frames of 1,538 bytes are lost: the tables of ns-3 3.44 for binary convolutional codes (its
/// `TableBasedErrorRateModel`; Patidar, Roy, Henderson and Chandramohan, "Link-to-System Mapping for ns-3 Wi-Fi OFDM Error
/// Models", WNS3 2017), read from that build for MCS 0 to 9.
#[test]
fn frames_are_lost_where_published_tables_lose_them() {
    let published = [0.95, 4.00, 6.45, 9.75, 12.85, 17.10, 18.40, 19.70, 23.75, 25.20];
    for (kind, expected) in published.into_iter().enumerate() {
        let loss = |snr: f64| 1.0 - power(survival(kind, 0, power(10.0, -snr / 10.0)), f64::from(8 * 1_538));
        let needed = (-100..800).map(|n| f64::from(n) * 0.05).find(|snr| loss(*snr) <= 0.1).unwrap_or(40.0);
        println!("| {kind} | {expected:.2} | {needed:.2} |");
        assert!((0.0..=2.6).contains(&(needed - expected)), "MCS {kind}: {needed} dB, published {expected}");
    }
}

#[test]
fn faster_rates_need_more_and_small_frames_less() {
    let all: Vec<i16> = (0..10).map(|kind| threshold(kind, 1_500, 0.1)).collect();
    assert!(all.windows(2).all(|pair| pair[0] < pair[1]), "{all:?}");
    assert!((0..10).all(|kind| threshold(kind, 32, 0.1) <= all[kind]));
}

/// Values of the error function from tables.
#[test]
fn erfc_is_that_of_tables() {
    for (x, value) in [(0.0, 1.0), (0.5, 0.479_500_1), (1.0, 0.157_299_2), (2.0, 0.004_677_7)] {
        assert!((erfc(x) - value).abs() < 3e-7, "{x}: {}", erfc(x));
    }
}
