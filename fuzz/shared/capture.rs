//! What must hold of any bytes read as a capture or as a result file: shared by the fuzz target and its replay.

/// Reads `input` both ways and writes out whatever was understood.
pub(crate) fn check(input: &[u8]) {
    use wavelane_probe::{formats, trace};
    if let Ok(analysed) = trace::analyse(input, |_| true) {
        assert!(
            analysed.ending.octets <= input.len() as u64
                || input.starts_with(&[0x1F, 0x8B])
                || input.starts_with(&[0x28, 0xB5])
        );
        let document = trace::json(&analysed, "input");
        assert_eq!(document["packets"], analysed.packets);
        let _ = (
            trace::csv(&analysed),
            trace::table(&analysed),
            trace::long_table(&analysed),
            trace::hosts_table(&analysed),
        );
        let points = trace::points(input, &[0, 1], |_| true);
        assert_eq!(points.map(|p| p.len()).unwrap_or(0), 2);
    }
    let _ = formats::read_results(input);
}
