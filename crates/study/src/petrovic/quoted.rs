//! The document's numbers: Petrovic and Aboelaze, "The Performance TCP/IP over wireless IEEE802.11 Link", Tables 1 to 5.

/// The four columns of Table 1, in its order: RTS/CTS, and coding.
pub(super) const COLUMNS: [Column; 4] = [
    Column { rts: true, fec: true },
    Column { rts: false, fec: true },
    Column { rts: true, fec: false },
    Column { rts: false, fec: false },
];
/// Sizes and windows of Tables 1 and 2.
pub(super) const SIZES: [u32; 5] = [100, 200, 500, 1000, 2000];
pub(super) const WINDOWS: [u32; 4] = [1, 2, 5, 10];
/// Sizes and windows of Table 5.
pub(super) const VOICE_SIZES: [u32; 5] = [200, 500, 600, 800, 1000];
pub(super) const VOICE_WINDOWS: [u32; 6] = [1, 2, 4, 8, 16, 32];

/// With or without RTS/CTS and coding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Column {
    pub(super) rts: bool,
    pub(super) fec: bool,
}

impl Column {
    /// The document's word.
    pub(super) fn word(self) -> &'static str {
        match (self.rts, self.fec) {
            (true, true) => "R/F",
            (false, true) => "NR/F",
            (true, false) => "R/NF",
            (false, false) => "NR/NF",
        }
    }
    fn place(self) -> usize {
        COLUMNS.iter().position(|c| *c == self).unwrap_or(0)
    }
}

/// A number of Tables 1 and 3 to 5, by the words of its line and its place.
fn number(line: &str, place: usize) -> Option<f64> {
    let found = include_str!("tables.txt").lines().find_map(|text| text.strip_prefix(line)?.strip_prefix(": "))?;
    found.split(' ').nth(place)?.parse().ok()
}

/// Table 2: kbit/s of each of five nodes, by size, window, column.
pub(super) const TABLE_2: [(u32, u32, Column, [f64; 5]); 4] = [
    (100, 1, COLUMNS[0], [7.05, 20.54, 15.09, 0.0, 13.6]),
    (500, 1, COLUMNS[2], [53.29, 71.1, 56.16, 89.42, 1.18]),
    (2000, 5, COLUMNS[2], [1.25, 157.11, 0.63, 117.29, 214.5]),
    (2000, 10, COLUMNS[2], [153.35, 0.31, 44.84, 44.84, 10.35]),
];

/// The totals that stand beside them; the last one's nodes sum to 253.69.
pub(super) const TABLE_2_TOTALS: [f64; 4] = [56.3, 271.1, 490.8, 359.7];

fn place(list: &[u32], value: u32) -> Option<usize> {
    list.iter().position(|v| *v == value)
}

/// A cell of Table 1.
pub(super) fn bulk_kbps(size: u32, window: u32, column: Column) -> Option<f64> {
    number(&format!("bulk {size} {window}"), column.place())
}

/// A cell of Table 3 or 4.
pub(super) fn response_s(size: u32, window: u32, column: Column) -> Option<f64> {
    number(&format!("response {size} {}", column.word()), place(&WINDOWS, window)?)
}

/// A cell of Table 5.
pub(super) fn voice_loss_percent(size: u32, window: u32) -> Option<f64> {
    number(&format!("voice {window}"), place(&VOICE_SIZES, size)?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    /// Cells that the document's text names.
    #[test]
    fn tables_are_read_by_size_window_and_column() {
        assert_eq!(bulk_kbps(500, 1, COLUMNS[2]), Some(271.1));
        assert_eq!(bulk_kbps(2000, 10, COLUMNS[1]), Some(826.0));
        assert_eq!(bulk_kbps(300, 1, COLUMNS[0]), None);
        assert_eq!(response_s(100, 1, COLUMNS[0]), Some(10.53));
        assert_eq!(response_s(1000, 5, COLUMNS[3]), Some(0.99));
        assert_eq!((voice_loss_percent(1000, 1), voice_loss_percent(200, 32)), (Some(8.5), Some(1.2)));
        for (_, _, _, nodes) in &TABLE_2[..3] {
            let sum: f64 = nodes.iter().sum();
            assert!(TABLE_2_TOTALS[..3].iter().any(|total| (total - sum).abs() < 0.1), "{sum}");
        }
    }
}
