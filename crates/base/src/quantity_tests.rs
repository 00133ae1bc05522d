#![allow(clippy::unwrap_used, reason = "tests")]
use super::*;
use proptest::prelude::*;

#[test]
fn quantities_parse_to_their_values() {
    assert_eq!(Rate::parse("20 Mbit/s").unwrap().as_bps(), 20_000_000);
    assert_eq!(Rate::parse("57.6 kbit/s").unwrap().as_bps(), 57_600);
    assert_eq!(Span::parse("50 ms").unwrap(), Span::from_millis(50));
    assert_eq!(Span::parse("0.5 us").unwrap(), Span::from_nanos(500));
    assert_eq!(Span::parse("5 min").unwrap(), Span::from_secs(300));
    assert_eq!(Octets::parse("250 kB").unwrap().get(), 250_000);
    assert_eq!(Octets::parse("64 KiB").unwrap().get(), 65_536);
    assert_eq!(Ratio::parse("0.05").unwrap().to_string(), "1/20");
    assert_eq!(Ratio::parse("1").unwrap(), Ratio::ONE);
}

#[test]
fn wrong_quantities_show_an_example() {
    let cases = [
        (
            Rate::parse("20 MB/s").unwrap_err(),
            "'20 MB/s' is not a rate, such as \"20 Mbit/s\": unit 'MB/s' is none of bit/s, kbit/s, Mbit/s, Gbit/s",
        ),
        (Rate::parse("20").unwrap_err(), "'20' is not a rate, such as \"20 Mbit/s\": the unit is missing"),
        (
            Rate::parse("20Mbit/s").unwrap_err(),
            "'20Mbit/s' is not a rate, such as \"20 Mbit/s\": write a number, one space and a unit",
        ),
        (Rate::parse("-1 Mbit/s").unwrap_err(), "'-1 Mbit/s' is not a rate, such as \"20 Mbit/s\""),
        (
            Rate::parse("0.1 bit/s").unwrap_err(),
            "'0.1 bit/s' is not a rate, such as \"20 Mbit/s\": it has more decimals than can be kept exactly",
        ),
        (
            Span::parse("50 Mbit/s").unwrap_err(),
            "'50 Mbit/s' is not a time, such as \"50 ms\": unit 'Mbit/s' is none of ns, us, ms, s, min, h",
        ),
        (Span::parse("1..5 s").unwrap_err(), "'1..5 s' is not a time, such as \"50 ms\": the number is malformed"),
        (
            Span::parse("99999999999999999999999999999999999999999 s").unwrap_err(),
            "'99999999999999999999999999999999999999999 s' is not a time, such as \"50 ms\": the number is too large",
        ),
        (
            Octets::parse("250 KB").unwrap_err(),
            "'250 KB' is not a size, such as \"250 kB\": unit 'KB' is none of B, kB, KiB, MB, MiB, GB, GiB",
        ),
        (Ratio::parse("5 %").unwrap_err(), "'5 %' is not a share between 0 and 1, such as \"1/20\""),
        (
            Ratio::parse("3/2").unwrap_err(),
            "'3/2' is not a share between 0 and 1, such as \"1/20\": it lies outside 0 to 1",
        ),
        (
            Ratio::parse("1.5").unwrap_err(),
            "'1.5' is not a share between 0 and 1, such as \"1/20\": it lies outside 0 to 1",
        ),
    ];
    for (error, message) in cases {
        assert_eq!(error.to_string(), message);
    }
}

proptest! {
    #[test]
    fn written_quantities_read_back(n in any::<u64>(), num in any::<u32>(), den in 1..=u32::MAX) {
        prop_assert_eq!(Rate::parse(&Rate::from_bps(n).write()).unwrap().as_bps(), n);
        prop_assert_eq!(Span::parse(&Span::from_nanos(n).write()).unwrap().as_nanos(), n);
        prop_assert_eq!(Octets::parse(&Octets::new(n).write()).unwrap().get(), n);
        if let Some(ratio) = Ratio::new(num.min(den), den) {
            let again = Ratio::parse(&ratio.write()).unwrap();
            prop_assert_eq!(u64::from(again.num()) * u64::from(ratio.den()), u64::from(ratio.num()) * u64::from(again.den()));
        }
    }

    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,40}") {
        let _ = (Rate::parse(&text), Span::parse(&text), Octets::parse(&text), Ratio::parse(&text));
    }
}
