//! Plain one-line messages on standard error: bounded in rate, length and number, and never waited for.
//!
//! A thread of its own writes them. If the reader of standard error stalls, or the file behind it is full, messages are
//! lost and counted, and nothing else happens.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::panic::PanicHookInfo;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;
use wavelane_base::{Instant, Span, text};

/// Lines that may come at once.
const BURST: u32 = 100;
/// One more line is allowed each such span.
const REFILL: Span = Span::from_millis(100);
/// Lines that wait for the writer; more are dropped.
const QUEUE_MAX: usize = 256;
/// Characters of a line; the rest is cut.
const LINE_MAX: usize = 1_000;
/// Names what standard error leads to where that is systemd's journal (systemd.exec(5)).
const JOURNAL: &str = "JOURNAL_STREAM";
/// How long the last lines of a process may take to be written.
const LAST_WORDS: Duration = Duration::from_millis(250);

/// The log. Lines beyond the rate limit are counted and the count is logged later.
#[derive(Debug)]
pub(crate) struct Log {
    tokens: u32,
    refilled: Instant,
    suppressed: u64,
    suppressed_ever: u64,
    pen: Pen,
}

impl Log {
    /// Starts the writer. Privileges belong to threads: drop them before.
    pub(crate) fn open(now: Instant) -> io::Result<Self> {
        Ok(Self::with(now, Pen::open()?))
    }
    fn with(now: Instant, pen: Pen) -> Self {
        Self { tokens: BURST, refilled: now, suppressed: 0, suppressed_ever: 0, pen }
    }
    /// Writes a line. Control characters, which may come from the network, are replaced.
    pub(crate) fn line(&mut self, now: Instant, text: &str) {
        for line in self.admit(now, text).into_iter().flatten() {
            self.pen.put(&line);
        }
    }
    /// A handle by which others than the log's owner can log.
    pub(crate) fn pen(&self) -> Pen {
        self.pen.clone()
    }
    /// What was left out, by counter.
    pub(crate) fn dropped(&self) -> [(&'static str, u64); 2] {
        [
            ("dropped_log_lines_rate", self.suppressed_ever),
            ("dropped_log_lines_unwritten", self.pen.lost.load(Ordering::Relaxed)),
        ]
    }
    fn admit(&mut self, now: Instant, text: &str) -> Option<Vec<String>> {
        let earned = now.since(self.refilled).as_nanos() / REFILL.as_nanos();
        if earned > 0 {
            self.tokens = self.tokens.saturating_add(u32::try_from(earned).unwrap_or(u32::MAX)).min(BURST);
            self.refilled += REFILL.times(earned);
        }
        if self.tokens == 0 {
            self.suppressed += 1;
            self.suppressed_ever += 1;
            return None;
        }
        self.tokens -= 1;
        let mut lines = Vec::new();
        if self.suppressed > 0 {
            lines.push(format!("{} messages were left out here", std::mem::take(&mut self.suppressed)));
        }
        lines.push(text.into());
        Some(lines)
    }
}

/// One line as it is written.
fn printable(text: &str) -> String {
    text.chars().take(LINE_MAX).map(|c| if text::moves(c) { ' ' } else { c }).collect()
}

/// How lines end that tell of one.
const FAULT: &str = ": this is a fault in wavelaned, please report it";

enum Order {
    Line(String),
    /// Says when everything before it was written.
    Tell(SyncSender<()>),
}

/// Gives lines to the writer. Clones write in turn.
#[derive(Clone, Debug)]
pub struct Pen {
    orders: SyncSender<Order>,
    lost: Arc<AtomicU64>,
}

impl Pen {
    /// Starts a writer to standard error.
    pub fn open() -> io::Result<Self> {
        // A descriptor of its own: the standard library's holds a lock for as long as a write takes.
        let out = File::from(io::stderr().as_fd().try_clone_to_owned()?);
        let journal = std::env::var(JOURNAL).unwrap_or_default();
        let leads_there = out.metadata().is_ok_and(|of| journal == format!("{}:{}", of.dev(), of.ino()));
        Self::to(out, leads_there)
    }
    /// Each line begins with its level if the reader takes that for what it is.
    fn to(mut out: impl Write + Send + 'static, has_levels: bool) -> io::Result<Self> {
        let (orders, queue) = sync_channel(QUEUE_MAX);
        let lost = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&lost);
        std::thread::Builder::new()
            .name("log".into())
            .spawn(move || write_all(&queue, (&mut out, has_levels), &counter))?;
        Ok(Self { orders, lost })
    }
    /// Writes a line soon, or counts it as lost.
    pub fn put(&self, text: &str) {
        if self.orders.try_send(Order::Line(printable(text))).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
    /// Waits until what was put before is written, but not for long: the process is about to end.
    pub fn flush(&self) {
        let (done, written) = sync_channel(1);
        if self.orders.try_send(Order::Tell(done)).is_ok() {
            let _ = written.recv_timeout(LAST_WORDS);
        }
    }
    /// Panic messages go the same way; otherwise a stalled reader of standard error would keep the process from ending.
    pub fn take_panics(&self) {
        let pen = self.clone();
        std::panic::set_hook(Box::new(move |info: &PanicHookInfo<'_>| {
            pen.put(&format!("{info}{FAULT}"));
            pen.flush();
        }));
    }
}

/// How lines begin that tell of what is not as it should be.
const WARNING: &str = "warning: ";

/// A line's level as the journal takes it (sd-daemon(3)).
fn level(line: &str) -> &'static str {
    match () {
        () if line.starts_with(WARNING) => "<4>",
        () if line.ends_with(FAULT) => "<2>",
        () => "<6>",
    }
}

/// The writer's whole life.
fn write_all(queue: &Receiver<Order>, (out, has_levels): (&mut impl Write, bool), lost: &AtomicU64) {
    let level = |line: &str| if has_levels { level(line) } else { "" };
    let mut said = 0;
    for order in queue {
        let line = match order {
            Order::Line(line) => line,
            Order::Tell(done) => {
                let _ = done.try_send(());
                continue;
            }
        };
        let lost_so_far = lost.load(Ordering::Relaxed);
        let gap = match lost_so_far - said {
            0 => String::new(),
            n => format!("{}wavelaned: {n} messages could not be written here\n", level(WARNING)),
        };
        // One call per order, so that no line is torn.
        match out.write_all(format!("{gap}{}wavelaned: {line}\n", level(&line)).as_bytes()) {
            Ok(()) => said = lost_so_far,
            Err(_) => drop(lost.fetch_add(1, Ordering::Relaxed)),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_flood_is_cut_and_counted() {
        let mut log = Log::with(Instant::ZERO, Pen::to(io::sink(), false).unwrap());
        let now = Instant::from_millis(50);
        let admitted = (0..1_000).filter(|_| log.admit(now, "x").is_some()).count();
        assert_eq!(admitted, 100);
        let lines = log.admit(Instant::from_millis(200), "y");
        assert_eq!(lines.as_deref(), Some(["900 messages were left out here".to_string(), "y".to_string()].as_slice()));
        assert_eq!(log.dropped()[0], ("dropped_log_lines_rate", 900));
    }

    #[test]
    fn a_line_stays_one_line_and_has_an_end() {
        assert_eq!(printable("a\nb\x1b[31m"), "a b [31m");
        assert_eq!(printable(&"x".repeat(1 << 20)).len(), LINE_MAX);
    }

    /// `journalctl -p warning` shows what is not as it should be.
    #[test]
    fn the_journal_gets_levels_and_others_do_not() {
        for (has_levels, wanted) in [
            (true, "<6>wavelaned: up\n<4>wavelaned: warning: no\n"),
            (false, "wavelaned: up\nwavelaned: warning: no\n"),
        ] {
            let (mut reader, writer) = UnixStream::pair().unwrap();
            let pen = Pen::to(writer, has_levels).unwrap();
            pen.put("up");
            pen.put("warning: no");
            drop(pen);
            let mut text = String::new();
            reader.read_to_string(&mut text).unwrap();
            assert_eq!(text, wanted);
        }
        assert_eq!(level(&format!("panicked{FAULT}")), "<2>");
    }

    #[test]
    fn a_stopped_log_reader_costs_counted_lines() {
        let (mut reader, writer) = UnixStream::pair().unwrap();
        let pen = Pen::to(writer, false).unwrap();
        for i in 0..20_000 {
            pen.put(&format!("{i:0900}"));
        }
        pen.flush();
        let lost = pen.lost.load(Ordering::Relaxed);
        assert!(lost > 10_000, "{lost}");
        // The reader resumes: nothing is torn, and the gap is reported.
        let text = std::thread::spawn(move || {
            let mut text = String::new();
            reader.read_to_string(&mut text).unwrap();
            text
        });
        while pen.orders.try_send(Order::Line("the end".into())).is_err() {
            std::thread::yield_now();
        }
        drop(pen);
        let text = text.join().unwrap();
        // In one piece unless the writer lags before the reader's buffer is full.
        let gaps = text
            .lines()
            .filter_map(|l| l.strip_prefix("wavelaned: ")?.strip_suffix(" messages could not be written here"));
        assert_eq!(gaps.map(|n| n.parse::<u64>().unwrap()).sum::<u64>(), lost);
        assert!(text.ends_with("wavelaned: the end\n") && text.lines().all(|l| l.starts_with("wavelaned: ")));
    }

    #[test]
    fn a_full_disk_loses_log_lines_only() {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let pen = Pen::to(full, false).unwrap();
        pen.put("one");
        pen.put("two");
        pen.flush();
        assert_eq!(pen.lost.load(Ordering::Relaxed), 2);
    }
}
