//! A table for both a terminal and a page.

use core::fmt::Write;

/// Heads, rows with the same number of cells, and the number of text columns: text is left-aligned, numbers right-aligned.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Table {
    pub(crate) words: usize,
    pub(crate) heads: Vec<&'static str>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub fn new(words: usize, heads: &[&'static str]) -> Self {
        Self { words, heads: heads.to_vec(), rows: Vec::new() }
    }

    /// Adds a row.
    pub fn push(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.heads.len(), "a row has a cell per head");
        self.rows.push(cells);
    }

    /// Removes columns that are empty in every row.
    pub(crate) fn without_empty(&mut self) {
        let has = |column: usize| self.rows.is_empty() || self.rows.iter().any(|row| row[column] != "-");
        let kept: Vec<usize> = (0..self.heads.len()).filter(|column| has(*column)).collect();
        self.words = kept.iter().filter(|column| **column < self.words).count();
        self.heads = kept.iter().map(|column| self.heads[*column]).collect();
        for row in &mut self.rows {
            *row = kept.iter().map(|column| core::mem::take(&mut row[*column])).collect();
        }
    }

    /// Lines for a terminal, the heads first.
    pub fn text(&self) -> String {
        let heads: Vec<String> = self.heads.iter().map(|&head| head.into()).collect();
        let lines = || [&heads].into_iter().chain(&self.rows);
        let width = |column: usize| lines().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..heads.len()).map(width).collect();
        let mut out = String::new();
        for row in lines() {
            let mut line = String::new();
            for (i, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let _ =
                    if i < self.words { write!(line, "{cell:<width$}  ") } else { write!(line, "{cell:>width$}  ") };
            }
            let _ = writeln!(out, "{}", line.trim_end());
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_without_anything_are_left_out() {
        let mut table = Table::new(2, &["stack", "flow", "goodput", "echo"]);
        table.push(["wavelane", "-", "1", "-"].map(str::to_owned).to_vec());
        table.push(["tcp-bbr", "-", "-", "-"].map(str::to_owned).to_vec());
        table.without_empty();
        assert_eq!((table.words, table.heads.as_slice()), (1, &["stack", "goodput"][..]));
        assert_eq!(table.text(), "stack     goodput\nwavelane        1\ntcp-bbr         -\n");
    }
}
