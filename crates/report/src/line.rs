//! Results of serial lines.

use crate::radio::over;
use crate::table::Table;
use wavelane_run::{LineFigures, RunDocument};

/// The table of the serial lines, if there are any.
pub(crate) fn line_table(document: &RunDocument) -> Option<(&'static str, Table)> {
    let head = ["stack", "line", "way", "packets", "bytes each", "not sent", "bad frames", "bytes overrun"];
    let mut table = Table::new(3, &head);
    for stack in &document.stacks {
        let mut ways: Vec<(&str, &str)> = stack.lines.iter().map(|l| (&*l.channel, &*l.way)).collect();
        ways.sort_unstable();
        ways.dedup();
        for (channel, way) in ways {
            let seeds: Vec<&LineFigures> =
                stack.lines.iter().filter(|l| l.channel == channel && l.way == way).collect();
            let of = |figure: fn(&LineFigures) -> u64| over(&seeds, 0, |line| Some(figure(line) as f64));
            let each = over(&seeds, 1, |line| (line.sent > 0).then(|| line.sent_bytes as f64 / line.sent as f64));
            let unsent = of(|line| line.full + line.down + line.too_long);
            let figures = [of(|line| line.sent), each, unsent, of(|line| line.bad), of(|line| line.overrun)];
            let names = [stack.stack.as_str(), channel, way].map(str::to_owned);
            table.push(names.into_iter().chain(figures).collect());
        }
    }
    (!table.rows.is_empty()).then_some(("Serial lines", table))
}
