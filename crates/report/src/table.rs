//! A table that a terminal and a page show alike.

use core::fmt::Write;

/// Heads, rows of as many cells, and how many columns are words: words stand left, numbers right.
pub(crate) struct Table {
    pub(crate) words: usize,
    pub(crate) heads: Vec<&'static str>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Table {
    /// Without rows yet.
    pub(crate) fn new(words: usize, heads: &[&'static str]) -> Self {
        Self { words, heads: heads.to_vec(), rows: Vec::new() }
    }

    /// Adds a row.
    pub(crate) fn push(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.heads.len(), "a row has a cell per head");
        self.rows.push(cells);
    }

    /// Lines for a terminal, the heads first.
    pub(crate) fn text(&self) -> String {
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
