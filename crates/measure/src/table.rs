//! A table by columns, each of one type: what a CSV file spells and a Parquet file keeps.

use core::fmt::{Display, Write};

/// A column's cells; `None` where nothing can be said.
#[derive(Clone, PartialEq, Debug)]
pub enum Cells {
    /// Whole numbers that are never negative.
    Counts(Vec<Option<u64>>),
    /// Numbers.
    Numbers(Vec<Option<f64>>),
    /// Texts.
    Texts(Vec<Option<String>>),
}

impl Cells {
    /// How many.
    pub fn len(&self) -> usize {
        match self {
            Self::Counts(all) => all.len(),
            Self::Numbers(all) => all.len(),
            Self::Texts(all) => all.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A named column.
#[derive(Clone, PartialEq, Debug)]
pub struct Column {
    /// Its head.
    pub name: String,
    /// One per row.
    pub cells: Cells,
}

/// Columns of equal length.
#[derive(Clone, PartialEq, Debug)]
pub struct Table(Vec<Column>);

impl Table {
    /// Panics if a column is longer than another.
    pub fn new(columns: Vec<Column>) -> Self {
        assert!(columns.windows(2).all(|two| two[0].cells.len() == two[1].cells.len()), "columns of unequal length");
        Self(columns)
    }

    /// From left to right.
    pub fn columns(&self) -> &[Column] {
        &self.0
    }

    /// How many rows.
    pub fn rows(&self) -> usize {
        self.0.first().map_or(0, |column| column.cells.len())
    }

    /// As RFC 4180 has it, with a line of heads; a cell without content is empty.
    pub fn csv(&self) -> String {
        let mut out = String::new();
        let mut line = |field: &dyn Fn(&Column, &mut String)| {
            for (at, column) in self.0.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                field(column, &mut out);
            }
            out.push('\n');
        };
        line(&|column, out| out.push_str(&csv_field(&column.name)));
        for row in 0..self.rows() {
            line(&|column, out| match &column.cells {
                Cells::Counts(all) => put(all[row], out),
                Cells::Numbers(all) => put(all[row], out),
                Cells::Texts(all) => put(all[row].as_deref().map(csv_field), out),
            });
        }
        out
    }
}

fn put(cell: Option<impl Display>, out: &mut String) {
    if let Some(cell) = cell {
        let _ = write!(out, "{cell}");
    }
}

/// A text as a field of a CSV file (RFC 4180, section 2). One that a spreadsheet would take for a formula, also behind blanks and
/// control characters that it leaves out, begins with an apostrophe; a number does not. Full-width forms (U+FF0B and its like) count
/// as what they stand for, as input methods of East Asia have them.
pub fn csv_field(text: &str) -> String {
    let shown = text.trim_start_matches(|c: char| c.is_whitespace() || c.is_control() || c == '\u{feff}');
    let is_formula = text.starts_with(['\t', '\r'])
        || shown.starts_with(['=', '+', '-', '@', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}']);
    if is_formula && text.parse::<f64>().is_err() {
        return quoted(&format!("'{text}"));
    }
    quoted(text)
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\r', '\n']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_quotes_special_fields_and_leaves_missing_ones_empty() {
        let column = |name: &str, cells| Column { name: name.into(), cells };
        let table = Table::new(vec![
            column("n", Cells::Counts(vec![Some(u64::MAX), None])),
            column("x, y", Cells::Numbers(vec![Some(1e6), Some(0.1)])),
            column("t", Cells::Texts(vec![Some("say \"no\"".into()), None])),
        ]);
        assert_eq!(table.csv(), "n,\"x, y\",t\n18446744073709551615,1000000,\"say \"\"no\"\"\"\n,0.1,\n");
        for (text, field) in [
            ("=1+1", "'=1+1"),
            ("=HYPERLINK(\"x\",\"y\")", "\"'=HYPERLINK(\"\"x\"\",\"\"y\"\")\""),
            ("+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("\u{ff1d}1+1", "'\u{ff1d}1+1"),
            (" \u{ff20}SUM(A1)", "' \u{ff20}SUM(A1)"),
            ("\u{ff0d}2\u{ff0b}3", "'\u{ff0d}2\u{ff0b}3"),
            ("-2+3", "'-2+3"),
            ("\t=1", "'\t=1"),
            (" =1", "' =1"),
            ("\u{1b}=1", "'\u{1b}=1"),
            ("\u{feff}\t@A1", "'\u{feff}\t@A1"),
            ("-2.5", "-2.5"),
            ("+1e3", "+1e3"),
            ("a=b", "a=b"),
        ] {
            assert_eq!(csv_field(text), field);
        }
        assert_eq!(csv_field("a\rb"), "\"a\rb\"", "a carriage return alone ends a row for some readers");
        assert_eq!((table.rows(), Table::new(vec![]).csv().as_str()), (2, "\n"));
    }
}
