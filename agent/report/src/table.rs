//! A table of text: columns as wide as their widest cell, with two spaces between.

use std::io::Write;

use rdma_health_node::words::printable;

/// Writes a table with a head. Cells are untrusted; a row that is shorter than the head ends early.
///
/// # Errors
/// If writing fails.
pub fn write(out: &mut impl Write, head: &[String], rows: &[Vec<String>]) -> std::io::Result<()> {
    let printed = |row: &[String]| -> Vec<_> { row.iter().map(|cell| printable(cell)).collect() };
    let rows: Vec<Vec<String>> = std::iter::once(head)
        .chain(rows.iter().map(Vec::as_slice))
        .map(printed)
        .collect();
    let mut widths = vec![0; head.len()];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    for row in &rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', width - cell.chars().count() + 2));
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}
