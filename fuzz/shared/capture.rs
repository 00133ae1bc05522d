//! What must hold of any bytes read as a capture or as a result file: shared by the fuzz target and its replay.

/// Reads `input` both ways and writes out whatever was understood.
pub(crate) fn check(input: &[u8]) {
    use wavelane_probe::{formats, trace};
    if let Ok(analysed) = trace::analyse(input, |_| true) {
        assert!(
            analysed.ending.octets <= input.len() as u64
                || input.starts_with(&[0x1F, 0x8B])
                || input.starts_with(&[0x28, 0xB5])
                || input.get(1..4) == Some(&[0x2A, 0x4D, 0x18])
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
    opened(input);
    if let Ok(results) = formats::read_results(input) {
        written(&results);
    }
}

/// With a key that fits nothing a decrypted capture holds the packets of the original.
fn opened(input: &[u8]) {
    use wavelane_probe::trace::{Keys, decrypt};
    use wavelane_wire::{datagram::Suite, keylog::LoggedKey};
    let logged = LoggedKey { receiver: 7, suite: Suite::ChaCha20Poly1305, key: [7; 32] };
    let keys = Keys::read(format!("{logged}\n").as_bytes()).expect("a key log");
    if let Ok(sum) = decrypt(input, &keys, &mut std::io::sink(), |_| true) {
        assert_eq!(sum.opened, 0);
        assert!(sum.without_key + sum.cut_off + sum.not_ip <= sum.packets);
    }
}

/// What was read can be written as a flent file, and read again with the same series.
fn written(results: &wavelane_probe::formats::Results) {
    use wavelane_probe::formats::{FlentMeta, FormatError, Tool, read_results, write_flent};
    let meta = FlentMeta {
        test: "fuzz".to_owned(),
        title: results.title.clone(),
        host: String::new(),
        local_host: String::new(),
        length_s: 4,
        delay_s: 1,
        step_s: 0.5,
        start_unix_s: results.start_unix_s.unwrap_or(0.0),
    };
    let mut file = Vec::new();
    write_flent(&mut file, &meta, &results.series).expect("memory");
    let again = match read_results(&file[..]) {
        // All that was measured lies outside of the file's seconds.
        Err(FormatError::NoValues(_)) => return,
        read => read.expect("what was written is read"),
    };
    assert_eq!((again.tool, again.title.as_str()), (Tool::Flent, results.title.as_str()));
    let mut names: Vec<&str> = results.series.iter().map(|s| s.name.as_str()).collect();
    names.sort_unstable();
    assert!(again.series.iter().map(|s| s.name.as_str()).eq(names));
}
