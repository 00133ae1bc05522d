#![allow(clippy::unwrap_used, reason = "tests")]
use super::*;

/// Place, line, font size and words of each text of a drawing.
fn texts(drawing: &str) -> Vec<(f64, String, u32, String)> {
    let value =
        |text: &str, key: &str| text.split(&format!(" {key}=\"")).nth(1).unwrap().split('"').next().unwrap().to_owned();
    let words = |text: &str| text.split('>').nth(1).unwrap().split('<').next().unwrap().to_owned();
    let of = |text: &str| {
        (value(text, "x").parse().unwrap(), value(text, "y"), value(text, "font-size").parse().unwrap(), words(text))
    };
    drawing.lines().filter(|line| line.starts_with("<text")).map(of).collect()
}

#[test]
fn the_labels_of_an_axis_neither_overlap_nor_leave_the_picture() {
    let label = "echo p95 over what is allowed beside the calmest rival, log scale";
    for (layout, axis) in [
        (NARROW, Axis::linear(1_000.0)),
        (WIDE, Axis::linear(1_000.0)),
        (NARROW, Axis::logarithmic([0.2, 490.0].into_iter())),
    ] {
        let mut canvas = Canvas::new(layout);
        horizontal(&mut canvas, &axis, label);
        let texts = texts(&canvas.out);
        let ends = |(x, _, size, words): &(f64, String, u32, String)| {
            let half = width_of(words, *size) / 2.0;
            (x - half, x + half)
        };
        assert!(texts.iter().map(ends).all(|(left, right)| left >= 0.0 && right <= layout.width), "{texts:?}");
        for two in texts.windows(2).filter(|two| two[0].1 == two[1].1) {
            assert!(ends(&two[0]).1 < ends(&two[1]).0, "{two:?}");
        }
        let last = axis.ticks().pop().unwrap().1;
        assert!(texts.iter().any(|text| text.3 == last), "the end of the axis has its label: {texts:?}");
        let under: Vec<&str> =
            texts.iter().filter(|t| t.3.contains(char::is_alphabetic)).map(|t| t.3.as_str()).collect();
        assert_eq!(under.join(" "), label);
    }
}

#[test]
fn a_stack_has_one_colour_on_every_page() {
    let of = |all: &[&str], stack: &str| style_of(all.iter().copied(), stack);
    for all in [&["tcp-cubic", "tcp-bbr", "wavelane"][..], &["wavelane", "tcp-bbr"], &["tcp-bbr", "tcp-hop-by-hop"]] {
        assert_eq!(of(all, "tcp-bbr"), 2);
    }
    // Others keep away from its colours and from each other's.
    let all = ["tcp-reno", "tcp-reno+rts", "tcp-2001", "tcp-hybla", "wavelane"];
    let styles: std::collections::BTreeSet<usize> = all.iter().map(|stack| of(&all, stack)).collect();
    assert_eq!(styles.len(), all.len());
    assert_eq!((of(&all, "tcp-reno"), of(&all, "tcp-reno+rts")), (3, 5));
    // Names of other things are numbered in order.
    assert_eq!(["up", "down"].map(|name| of(&["up", "down"], name)), [1, 2]);
}
