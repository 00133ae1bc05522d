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

/// Table 1: total kbit/s of five TCP connections, by size, window, column.
const TABLE_1: [[[f64; 4]; 4]; 5] = [
    [[56.3, 91.8, 63.1, 80.1], [72.35, 92.4, 79.2, 75.8], [83.9, 95.6, 70.9, 96.2], [70.6, 97.2, 78.8, 97.7]],
    [
        [159.0, 175.7, 127.0, 167.3],
        [128.2, 195.2, 158.1, 214.1],
        [192.4, 232.1, 184.2, 201.1],
        [203.1, 244.4, 153.5, 231.9],
    ],
    [
        [225.8, 412.0, 271.1, 370.2],
        [301.8, 421.1, 313.9, 358.7],
        [303.9, 342.5, 341.0, 433.1],
        [332.2, 485.8, 336.8, 472.8],
    ],
    [
        [230.8, 585.8, 453.6, 591.5],
        [357.0, 656.8, 362.7, 599.0],
        [372.6, 685.2, 343.8, 692.6],
        [465.4, 702.6, 227.6, 716.4],
    ],
    [
        [414.9, 610.3, 479.8, 554.1],
        [375.4, 649.5, 621.2, 660.4],
        [498.0, 698.7, 490.8, 615.9],
        [566.1, 826.0, 359.7, 616.0],
    ],
];

/// Tables 3 and 4: mean response in seconds of ten readers at 100 and 1000 B, by column, window.
const TABLES_3_4: [(u32, [[f64; 4]; 4]); 2] = [
    (100, [[10.53, 5.23, 9.63, 4.60], [2.21, 2.51, 3.99, 1.78], [6.33, 4.98, 9.25, 5.44], [3.85, 2.99, 1.66, 2.68]]),
    (1000, [[4.39, 4.27, 3.63, 3.55], [1.06, 1.05, 0.87, 0.89], [3.92, 3.65, 3.50, 3.87], [0.92, 1.01, 0.99, 0.99]]),
];

/// Table 5: loss in per cent, by window, size.
const TABLE_5: [[f64; 5]; 6] = [
    [0.2, 0.40, 0.2, 0.33, 8.5],
    [0.95, 0.36, 0.28, 0.28, 7.2],
    [0.45, 0.46, 0.29, 0.37, 7.6],
    [1.19, 0.36, 0.46, 0.43, 7.2],
    [1.5, 0.23, 0.41, 0.45, 7.2],
    [1.2, 0.5, 0.38, 0.5, 8.2],
];

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
    Some(TABLE_1[place(&SIZES, size)?][place(&WINDOWS, window)?][column.place()])
}

/// A cell of Table 3 or 4.
pub(super) fn response_s(size: u32, window: u32, column: Column) -> Option<f64> {
    let (_, table) = TABLES_3_4.iter().find(|(of, _)| *of == size)?;
    Some(table[column.place()][place(&WINDOWS, window)?])
}

/// A cell of Table 5.
pub(super) fn voice_loss_percent(size: u32, window: u32) -> Option<f64> {
    Some(TABLE_5[place(&VOICE_WINDOWS, window)?][place(&VOICE_SIZES, size)?])
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
