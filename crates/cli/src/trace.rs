//! `wavelane trace`.

use crate::progress::Meter;
use crate::{Failure, Outcome, interrupt, print, unwritable};
use clap::Args;
use std::fs::File;
use std::io::{BufReader, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use wavelane_base::text;
use wavelane_base::text::ShownPath;
use wavelane_probe::trace::{self, Direction, Input, Trace, Unread};
use wavelane_report::{Graph, GraphSeries, Mark, draw_graphs, parquet};
use wavelane_run::NewFile;

/// Arguments of `wavelane trace`.
#[derive(Args)]
pub(crate) struct TraceArgs {
    /// A pcap or pcapng file, also compressed with gzip or zstd; - for standard input.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// One JSON document.
    #[arg(long, conflicts_with_all = ["csv", "hosts", "long"])]
    json: bool,
    /// One line per connection, with the columns of `tcptrace --csv` first.
    #[arg(long, conflicts_with_all = ["hosts", "long"])]
    csv: bool,
    /// What each host sent and received.
    #[arg(long, conflicts_with = "long")]
    hosts: bool,
    /// Every figure of every connection, as `tcptrace -lr` lists them.
    #[arg(long)]
    long: bool,
    /// Draw time-sequence, round trip, throughput, outstanding data and segment size of the connections with most
    /// packets into this directory, as SVG and PNG.
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
    /// Of how many connections.
    #[arg(long, value_name = "N", default_value_t = 4, requires = "plots", value_parser = clap::value_parser!(u8).range(1..=64))]
    plot_top: u8,
    /// Also write the columns of --csv to OUT, a Parquet file that does not exist.
    #[arg(long, value_name = "OUT")]
    parquet: Option<PathBuf>,
    /// A key log of gateways (`wavelaned --key-log`, `wavelane run --keys`), to open what they sealed.
    #[arg(long, value_name = "FILE", requires = "decrypt")]
    keys: Option<PathBuf>,
    /// Write the capture with gateways' datagrams opened to OUT, and analyse nothing.
    #[arg(long, value_name = "OUT", requires = "keys", conflicts_with_all = ["json", "csv", "hosts", "long", "plots", "parquet"])]
    decrypt: Option<PathBuf>,
}

/// Writes a capture whose sealed datagrams are opened.
fn decrypt(args: &TraceArgs, keys: &Path, out: &Path) -> Outcome {
    let at = |path: &Path, why: &dyn std::fmt::Display| Failure::refused(format!("{}: {why}", path.shown()));
    let log = File::open(keys).map_err(|e| at(keys, &e))?;
    let known = trace::Keys::read(BufReader::new(log)).map_err(|e| at(keys, &e))?;
    let stop = interrupt::flag()?;
    let file = Input::open(&args.file, &stop).map_err(|e| at(&args.file, &e))?;
    // A capture that exists is not worth the chance that it is the one being read.
    let made = NewFile::begin(out).map_err(|e| at(out, &e))?;
    let meter = Meter::new();
    let go_on = |packets: u64| {
        meter.say(&format!("{packets} packets"));
        !stop.load(Ordering::Relaxed)
    };
    let opened = trace::decrypt(file, &known, &mut BufWriter::new(made.file()), go_on);
    meter.finish();
    let failed = match &opened {
        // What ended early because of it is not damaged.
        _ if stop.load(Ordering::Relaxed) => Some(Failure::interrupted("interrupted")),
        Err(why @ trace::DecryptError::Write(_)) => Some(at(out, why)),
        Err(why) => Some(at(&args.file, why)),
        Ok(_) => None,
    };
    let sum = opened.unwrap_or_default();
    if let Some(failed) = failed {
        return Err(failed);
    }
    if let Some(damage) = &sum.ending.damage {
        say!("wavelane: {}: {damage} after {} packets; what came before is written", args.file.shown(), sum.packets);
    }
    if sum.cut_off > 0 {
        say!(
            "wavelane: {} datagrams stay sealed, for the capture kept their beginning only: capture whole packets (`tcpdump -s 0`)",
            sum.cut_off
        );
    }
    if sum.without_key > 0 {
        say!("wavelane: {} datagrams stay sealed, for no key in {} opens them", sum.without_key, keys.shown());
    }
    if sum.opened == 0 {
        return Err(at(
            &args.file,
            &format!("none of {} packets could be opened with {}: nothing was written", sum.packets, keys.shown()),
        ));
    }
    made.keep().map_err(|e| at(out, &e))?;
    let (opened, packets) = (sum.opened, sum.packets);
    print(&format!("{opened} datagrams in {packets} captured packets opened, written to {}\n", out.shown()))?;
    Ok(if is_mostly_lost(&sum.ending, &args.file) { crate::EXIT_FAIL } else { 0 })
}

/// Analyses a capture file.
pub(crate) fn trace(args: &TraceArgs) -> Outcome {
    if args.file.is_dir() {
        let file = args.file.shown();
        return Err(Failure::refused(format!("{file} is a directory: name a capture file")));
    }
    if let (Some(keys), Some(out)) = (&args.keys, &args.decrypt) {
        return decrypt(args, keys, out);
    }
    let refused = |why: &dyn std::fmt::Display| Failure::refused(format!("{}: {why}", args.file.shown()));
    let stop = interrupt::flag()?;
    let mut input = Input::open(&args.file, &stop).map_err(|e| refused(&e))?;
    if args.plots.is_some() && input.is_stream() {
        // Graphs are of the largest connections, which are known at the end: it is read twice.
        input = input.kept().map_err(|e| refused(&format!("keeping it for --plots in {TEMPORARY}: {e}")))?;
    }
    let again = if args.plots.is_some() { Some(input.twin().map_err(|e| refused(&e))?) } else { None };
    let meter = Meter::new();
    let go_on = |packets: u64| {
        meter.say(&format!("{packets} packets"));
        !stop.load(Ordering::Relaxed)
    };
    let analysed = trace::analyse(input, go_on);
    meter.finish();
    // First, since what ended early because of it is not damaged.
    if stop.load(Ordering::Relaxed) {
        return Err(Failure::interrupted("interrupted"));
    }
    let analysed = analysed.map_err(|e| refused(&e))?;
    if let Some(damage) = &analysed.ending.damage {
        say!(
            "wavelane: {}: {damage} after {} packets; what came before is analysed",
            args.file.shown(),
            analysed.packets
        );
    }
    if let (Some(directory), Some(mut again)) = (&args.plots, again) {
        again.rewind().map_err(|e| refused(&e))?;
        let chosen = largest(&analysed, usize::from(args.plot_top));
        let points = trace::points(again, &chosen, go_on);
        meter.finish();
        if stop.load(Ordering::Relaxed) {
            return Err(Failure::interrupted("interrupted"));
        }
        let points = points.map_err(|e| refused(&e))?;
        let drawn: Vec<_> = chosen
            .iter()
            .zip(&points)
            .flat_map(|(&at, both)| [0, 1].map(|way| graphs(&analysed, at, way, &both[way])))
            .flatten()
            .collect();
        let go_on = |done: usize| {
            meter.say(&format!("{done} of {} graphs", drawn.len()));
            !stop.load(Ordering::Relaxed)
        };
        let whole = draw_graphs(directory, &drawn, &go_on);
        meter.finish();
        if !whole.map_err(Failure::refused)? {
            return Err(Failure::interrupted("interrupted"));
        }
        say!("wavelane: {} graphs in {}", drawn.len(), directory.shown());
    }
    if let Some(out) = &args.parquet {
        write_parquet(out, &analysed)?;
    }
    let name = args.file.display().to_string();
    if args.json {
        write_document(&analysed, &name, &stop)?;
        return Ok(judged(&analysed, &args.file));
    }
    print(&if args.csv {
        trace::csv(&analysed)
    } else if args.hosts {
        trace::hosts_table(&analysed)
    } else if args.long {
        trace::long_table(&analysed)
    } else {
        trace::table(&analysed)
    })?;
    Ok(judged(&analysed, &args.file))
}

/// Whether most of the file was not read, which is said.
fn is_mostly_lost(ending: &trace::Ending, file: &Path) -> bool {
    if ending.is_mostly_lost() {
        say!(
            "wavelane: {}: most of the file lies behind that and is not read: copy it again, or convert it if another program's pcap has longer heads (`editcap -F pcap`)",
            file.shown()
        );
    }
    ending.is_mostly_lost()
}

/// The exit code: figures of the smaller part of a capture are no success.
fn judged(analysed: &Trace, file: &Path) -> u8 {
    if is_mostly_lost(&analysed.ending, file) {
        return crate::EXIT_FAIL;
    }
    if !analysed.is_mostly_unread() {
        return 0;
    }
    let worst = analysed.unread.iter().filter(|(cause, _)| **cause != Unread::NoPacket).max_by_key(|(_, n)| **n);
    let worst = worst.map_or((0, ""), |(cause, n)| (*n, cause.words()));
    let (n, words) = worst.max((analysed.short, "cut off in their header of TCP"));
    let (unread, packets, file) = (analysed.unreadable() + analysed.short, analysed.packets, file.shown());
    let most = format!(", most of them ({n}) {words}");
    say!("wavelane: {file}: {unread} of {packets} packets were not read{most}: the figures are of the others");
    crate::EXIT_FAIL
}

/// Where standard input is kept to be read twice.
const TEMPORARY: &str = "the folder of temporary files (TMPDIR)";

/// Writes the JSON document to standard output until `stop` is set.
fn write_document(analysed: &Trace, name: &str, stop: &AtomicBool) -> Outcome {
    crate::closed()?;
    let out = std::io::stdout().lock();
    // As all that is printed; of JSON's strings controls alone are escaped.
    let name = if out.is_terminal() { text::line(name, usize::MAX) } else { name.into() };
    let mut out = BufWriter::new(Stoppable { out, stop });
    match trace::write_json(analysed, &name, &mut out).and_then(|()| out.flush()) {
        _ if stop.load(Ordering::Relaxed) => {
            // What is in the buffer is of no use.
            drop(out.into_parts());
            Err(Failure::interrupted("interrupted"))
        }
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(unwritable(&e)),
        _ => Ok(0),
    }
}

/// Takes nothing any more once told to stop.
struct Stoppable<'a, W> {
    out: W,
    stop: &'a AtomicBool,
}

impl<W: Write> Write for Stoppable<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(std::io::Error::other("stopped"));
        }
        self.out.write(bytes)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

/// Writes the columns to a file that is not there: one that is might be the capture.
fn write_parquet(out: &Path, analysed: &Trace) -> Result<(), Failure> {
    let bytes = parquet(&trace::columns(analysed)).map_err(Failure::refused)?;
    let refused = |e: std::io::Error| Failure::refused(format!("{}: {e}", out.shown()));
    let made = NewFile::begin(out).map_err(refused)?;
    made.file().write_all(&bytes).and_then(|()| made.keep()).map_err(refused)
}

/// The connections with most packets, in the order of the capture.
fn largest(analysed: &Trace, most: usize) -> Vec<usize> {
    let mut all: Vec<usize> = (0..analysed.connections.len()).collect();
    all.sort_by_key(|&at| std::cmp::Reverse(analysed.connections[at].packets()));
    all.truncate(most);
    all.sort_unstable();
    all
}

/// Octets as the unit of an axis shows them best: its name and its size.
fn unit(most: u64) -> (&'static str, f64) {
    match most {
        0..20_000 => ("octets", 1.0),
        20_000..20_000_000 => ("kB", 1e3),
        20_000_000..20_000_000_000 => ("MB", 1e6),
        _ => ("GB", 1e9),
    }
}

fn scaled(points: &[(f64, u64)], by: f64) -> Vec<(f64, f64)> {
    points.iter().map(|&(t, n)| (t, n as f64 / by)).collect()
}

/// tcptrace's graphs of one direction, with the names of their files.
fn graphs(analysed: &Trace, at: usize, way: usize, points: &Direction) -> Vec<(String, Graph)> {
    let c = &analysed.connections[at];
    let (from, to, ways) = if way == 0 { (c.a, c.b, "a2b") } else { (c.b, c.a, "b2a") };
    let graph = |title: &str, y_label: String, series: Vec<GraphSeries>| Graph {
        title: format!("{title}, {from} to {to}"),
        x_label: "time since the first packet (s)".to_owned(),
        y_label,
        series,
    };
    let series = |name: &str, style, mark| GraphSeries { name: name.to_owned(), style, mark };
    let rate = |p: &(f64, u64)| (p.0, p.1 as f64 * 8.0 / trace::BIN_S / 1e6);
    [
        ("tsg", time_sequence(points, &graph)),
        (
            "rtt",
            graph(
                "Round trip between capture and receiver",
                "round trip (ms)".to_owned(),
                vec![series("round trips", 0, Mark::Dots(points.rtt_ms.clone()))],
            ),
        ),
        (
            "tput",
            graph(
                "Throughput",
                format!("Mbit/s of new data, mean over {} ms", trace::BIN_S * 1e3),
                vec![series("new data", 0, Mark::Line(points.octets.iter().map(rate).collect()))],
            ),
        ),
        ("owin", outstanding(points, &graph)),
        (
            "ssize",
            graph(
                "Segment size",
                "octets of data".to_owned(),
                vec![series("segments", 0, Mark::Dots(scaled(&points.sizes, 1.0)))],
            ),
        ),
    ]
    .into_iter()
    .filter(|(_, graph)| !graph.is_empty())
    .map(|(kind, graph)| (format!("{}_{ways}_{kind}", at + 1), graph))
    .collect()
}

fn time_sequence(points: &Direction, graph: &impl Fn(&str, String, Vec<GraphSeries>) -> Graph) -> Graph {
    let ends = [&points.data, &points.again, &points.late].into_iter().flatten().map(|s| s.2);
    let (name, by) = unit(ends.max().unwrap_or(0));
    let strokes = |s: &trace::Segments| {
        Mark::Strokes(s.iter().map(|&(t, low, high)| (t, low as f64 / by, high as f64 / by)).collect())
    };
    let tops = |s: &trace::Segments| Mark::Dots(s.iter().map(|&(t, _, high)| (t, high as f64 / by)).collect());
    let series = |name: &str, style, mark| GraphSeries { name: name.to_owned(), style, mark };
    graph(
        "Time-sequence",
        format!("sequence number since the first ({name})"),
        vec![
            series("segments", 0, strokes(&points.data)),
            series("acknowledged", 2, Mark::Steps(scaled(&points.acks, by))),
            series("window", 5, Mark::Steps(scaled(&points.windows, by))),
            series("SACK", 3, strokes(&points.sacks)),
            series("sent again", 1, tops(&points.again)),
            series("out of order", 6, tops(&points.late)),
        ],
    )
}

fn outstanding(points: &Direction, graph: &impl Fn(&str, String, Vec<GraphSeries>) -> Graph) -> Graph {
    let (name, by) = unit(points.outstanding.iter().map(|p| p.1).max().unwrap_or(0));
    let mean = |(i, sum): (usize, f64)| sum / (i + 1) as f64;
    let mut sum = 0.0;
    let averages: Vec<(f64, f64)> = points
        .outstanding
        .iter()
        .enumerate()
        .map(|(i, &(t, n))| {
            sum += n as f64 / by;
            (t, mean((i, sum)))
        })
        .collect();
    graph(
        "Outstanding data",
        format!("sent and not acknowledged ({name})"),
        vec![
            GraphSeries { name: "outstanding".to_owned(), style: 0, mark: Mark::Line(scaled(&points.outstanding, by)) },
            GraphSeries { name: "mean so far".to_owned(), style: 1, mark: Mark::Line(averages) },
        ],
    )
}
