//! Tables that commands print.
use std::io::{self, Write};

use longhaul_types::legible;

/// Writes rows with columns as wide as their widest cells.
pub(super) fn write_table(rows: &[Vec<String>], out: &mut impl Write) -> io::Result<()> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in rows {
        let cells = row.iter().zip(&widths);
        let cells: Vec<String> = cells.map(|(cell, width)| format!("{cell:width$}")).collect();
        writeln!(out, "{}", cells.join("  ").trim_end())?;
    }
    Ok(())
}

/// A cell. A manually edited file may contain anything, including terminal control sequences.
pub(super) fn cell(value: Option<String>) -> String {
    value.map_or_else(|| "-".to_owned(), |text| legible(&text, usize::MAX))
}
