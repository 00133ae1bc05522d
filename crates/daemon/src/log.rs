//! Plain one-line messages on standard error: bounded in rate, length and number, and never waited for.
//!
//! A thread of its own writes them. If the reader of standard error stalls, or the file behind it is full, messages are
//! lost and counted, and nothing else happens.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;
use std::panic::PanicHookInfo;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;
use wavelane_base::{Instant, Span, text};
use wavelane_host::clock::wall_nanos;
use wavelane_settings::LogLevel;

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
/// Where the journal takes lines with fields (systemd's JOURNAL_NATIVE_PROTOCOL).
const NATIVE: &str = "/run/systemd/journal/socket";
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
    pub(crate) fn open(now: Instant, level: LogLevel) -> io::Result<Self> {
        let log = Self::with(now, Pen::open()?);
        log.set_level(level);
        Ok(log)
    }
    /// From now on lines below that are left out.
    pub(crate) fn set_level(&self, level: LogLevel) {
        self.pen.level.store(level as u8, Ordering::Relaxed);
    }
    /// Whether lines of that level are written.
    pub(crate) fn has(&self, level: LogLevel) -> bool {
        self.pen.has(level)
    }
    fn with(now: Instant, pen: Pen) -> Self {
        Self { tokens: BURST, refilled: now, suppressed: 0, suppressed_ever: 0, pen }
    }
    /// Writes a line. Control characters, which may come from the network, are replaced.
    pub(crate) fn line(&mut self, now: Instant, text: &str) {
        if !self.pen.has(level(text).0) {
            return;
        }
        for line in self.admit(now, text).into_iter().flatten() {
            self.pen.put(&line);
        }
    }
    /// The same of what is not as it should be.
    pub(crate) fn warn(&mut self, now: Instant, text: &str) {
        self.line(now, &format!("{WARNING}{text}"));
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
        // Whoever can cause decisions hides no warning behind them.
        let kept = if level(text).0 == LogLevel::Debug { BURST / 2 } else { 0 };
        if self.tokens <= kept {
            self.suppressed += 1;
            self.suppressed_ever += 1;
            return None;
        }
        self.tokens -= 1;
        let mut lines = Vec::new();
        if self.suppressed > 0 {
            lines.push(format!("{WARNING}{} messages were left out here", std::mem::take(&mut self.suppressed)));
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
    /// With the time of day in nanoseconds since 1970.
    Line(u64, String),
    /// Says when everything before it was written.
    Tell(SyncSender<()>),
}

/// What reads the lines.
enum Reader {
    /// Somebody who is told time and level.
    People,
    /// The journal, which knows both: each line begins with its priority (sd-daemon(3)), or is sent with fields.
    Journal(Option<UnixDatagram>),
}

/// Gives lines to the writer. Clones write in turn.
#[derive(Clone, Debug)]
pub struct Pen {
    orders: SyncSender<Order>,
    lost: Arc<AtomicU64>,
    level: Arc<AtomicU8>,
}

impl Pen {
    /// Starts a writer to standard error.
    pub fn open() -> io::Result<Self> {
        // A descriptor of its own: the standard library's holds a lock for as long as a write takes.
        let out = File::from(io::stderr().as_fd().try_clone_to_owned()?);
        let journal = std::env::var(JOURNAL).unwrap_or_default();
        let leads_there = out.metadata().is_ok_and(|of| journal == format!("{}:{}", of.dev(), of.ino()));
        let native = || UnixDatagram::unbound().and_then(|end| end.connect(NATIVE).map(|()| end));
        Self::to(out, if leads_there { Reader::Journal(native().ok()) } else { Reader::People })
    }
    fn to(mut out: impl Write + Send + 'static, reader: Reader) -> io::Result<Self> {
        let (orders, queue) = sync_channel(QUEUE_MAX);
        let lost = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&lost);
        std::thread::Builder::new()
            .name("log".into())
            .spawn(move || write_all(&queue, (&mut out, &reader), &counter))?;
        Ok(Self { orders, lost, level: Arc::new(AtomicU8::new(LogLevel::default() as u8)) })
    }
    fn has(&self, level: LogLevel) -> bool {
        level as u8 <= self.level.load(Ordering::Relaxed)
    }
    /// Writes a line soon, or counts it as lost.
    pub fn put(&self, text: &str) {
        // The end of a fault's line tells its level.
        let cut = || match text.strip_suffix(FAULT) {
            Some(what) => printable(what) + FAULT,
            None => printable(text),
        };
        let line = || Order::Line(wall_nanos(), cut());
        if self.has(level(text).0) && self.orders.try_send(line()).is_err() {
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
pub(crate) const WARNING: &str = "warning: ";
/// How those begin after which something does not go on.
pub const ERROR: &str = "error: ";
/// How those begin that only who looks for a fault wants.
pub(crate) const DEBUG: &str = "debug: ";

/// A line's level, its word, and its priority as the journal takes it (syslog(3)).
fn level(line: &str) -> (LogLevel, &'static str, u8) {
    match () {
        () if line.ends_with(FAULT) => (LogLevel::Error, ERROR, 2),
        () if line.starts_with(ERROR) => (LogLevel::Error, ERROR, 3),
        () if line.starts_with(WARNING) => (LogLevel::Warning, WARNING, 4),
        () if line.starts_with(DEBUG) => (LogLevel::Debug, DEBUG, 7),
        () => (LogLevel::Info, "info: ", 6),
    }
}

/// The program's name in a line.
const US: &str = "wavelaned: ";

/// What a line of the log says, without time, name and the levels that go without saying.
pub(crate) fn said(line: &str) -> &str {
    let said = line.split_once(US).map_or(line, |(_, said)| said);
    ["info: ", ERROR].iter().find_map(|word| said.strip_prefix(word)).unwrap_or(said)
}

/// Whether a text is such a log.
pub(crate) fn is_log(text: &str) -> bool {
    text.is_empty() || text.lines().next().is_some_and(|line| line.contains(US))
}

/// A time of day as RFC 3339 writes it, in UTC to the millisecond.
fn time_text(nanos: u64) -> String {
    let (mut days, ms) = (nanos / 86_400_000_000_000, nanos / 1_000_000 % 86_400_000);
    let is_leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    let (hour, minute, second) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1_000 % 60);
    let date = format!("{year:04}-{:02}-{:02}", month + 1, days + 1);
    format!("{date}T{hour:02}:{minute:02}:{second:02}.{:03}Z", ms % 1_000)
}

/// A line as it is written to standard error.
fn written(at: u64, line: &str, reader: &Reader) -> String {
    let (_, word, priority) = level(line);
    match reader {
        Reader::Journal(_) => format!("<{priority}>{US}{line}\n"),
        Reader::People => format!("{} {US}{word}{}\n", time_text(at), line.strip_prefix(word).unwrap_or(line)),
    }
}

/// A line as the journal takes it with fields: a peer's name stands in quotes, and holds none.
fn fields(line: &str) -> String {
    // Only the subject's: what others say may quote a name.
    let said = line.strip_prefix(level(line).1).unwrap_or(line);
    let peer = said.strip_prefix("peer '").and_then(|rest| rest.split_once('\''));
    let peer = peer.map(|(name, _)| format!("WAVELANE_PEER={name}\n")).unwrap_or_default();
    format!("MESSAGE={line}\nPRIORITY={}\nSYSLOG_IDENTIFIER=wavelaned\n{peer}", level(line).2)
}

/// The writer's whole life.
fn write_all(queue: &Receiver<Order>, (out, reader): (&mut impl Write, &Reader), lost: &AtomicU64) {
    let mut put = |at: u64, line: &str| match reader {
        // Of a datagram whose sender has ended the journal does not know the unit: last words take the stream.
        Reader::Journal(Some(native))
            if level(line).0 != LogLevel::Error && native.send(fields(line).as_bytes()).is_ok() =>
        {
            Ok(())
        }
        // One call per line, so that none is torn.
        _ => out.write_all(written(at, line, reader).as_bytes()),
    };
    let mut said = 0;
    for order in queue {
        let (at, line) = match order {
            Order::Line(at, line) => (at, line),
            Order::Tell(done) => {
                let _ = done.try_send(());
                continue;
            }
        };
        let lost_so_far = lost.load(Ordering::Relaxed);
        if lost_so_far > said
            && put(at, &format!("{WARNING}{} messages could not be written here", lost_so_far - said)).is_ok()
        {
            said = lost_so_far;
        }
        if put(at, &line).is_err() {
            lost.fetch_add(1, Ordering::Relaxed);
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
        let mut log = Log::with(Instant::ZERO, Pen::to(io::sink(), Reader::People).unwrap());
        let now = Instant::from_millis(50);
        let admitted = (0..1_000).filter(|_| log.admit(now, "x").is_some()).count();
        assert_eq!(admitted, 100);
        let lines = log.admit(Instant::from_millis(200), "y");
        assert_eq!(
            lines.as_deref(),
            Some(["warning: 900 messages were left out here".to_string(), "y".to_string()].as_slice())
        );
        assert_eq!(log.dropped()[0], ("dropped_log_lines_rate", 900));
    }

    #[test]
    fn a_line_stays_one_line_and_has_an_end() {
        assert_eq!(printable("a\nb\x1b[31m"), "a b [31m");
        assert_eq!(printable(&"x".repeat(1 << 20)).len(), LINE_MAX);
    }

    #[test]
    fn times_are_those_of_rfc_3339() {
        const DAY: u64 = 86_400_000_000_000;
        for (nanos, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (59 * DAY - 1, "1970-02-28T23:59:59.999Z"),
            (951_782_400_000_000_000, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199_999_999_999, "2024-02-29T23:59:59.999Z"),
            (1_796_075_427_123_456_789, "2026-11-30T21:50:27.123Z"),
            (4_107_542_400_000_000_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(time_text(nanos), text);
        }
    }

    /// All that a writer wrote of these lines.
    fn wrote(lines: &[&str], level: LogLevel, reader: Reader) -> String {
        let (mut end, writer) = UnixStream::pair().unwrap();
        let pen = Pen::to(writer, reader).unwrap();
        pen.level.store(level as u8, Ordering::Relaxed);
        lines.iter().for_each(|line| pen.put(line));
        drop(pen);
        let mut text = String::new();
        end.read_to_string(&mut text).unwrap();
        text
    }

    const LINES: [&str; 4] = ["peer 'b' is up", "warning: no", "error: end", "debug: tick"];

    #[test]
    fn a_line_has_time_and_level_and_the_level_chooses() {
        let all = wrote(&LINES, LogLevel::Debug, Reader::People);
        let (times, said): (Vec<&str>, Vec<&str>) = all.lines().map(|line| line.split_once(' ').unwrap()).unzip();
        assert!(times.iter().all(|time| time.len() == 24 && time.starts_with("20") && time.ends_with('Z')), "{all}");
        let wanted = ["info: peer 'b' is up", "warning: no", "error: end", "debug: tick"];
        assert_eq!(said, wanted.map(|line| format!("wavelaned: {line}")));
        assert!(is_log(&all) && super::said(all.lines().next().unwrap()) == "peer 'b' is up");
        for (level, lines) in [(LogLevel::Error, 1), (LogLevel::Warning, 2), (LogLevel::Info, 3)] {
            assert_eq!(wrote(&LINES, level, Reader::People).lines().count(), lines, "{level:?}");
        }
    }

    /// `journalctl -p warning` shows what is not as it should be, `journalctl WAVELANE_PEER=b` what is of a peer.
    #[test]
    fn the_journal_gets_levels_and_fields() {
        let plain = wrote(&LINES, LogLevel::Debug, Reader::Journal(None));
        let wanted = ["<6>wavelaned: peer 'b' is up", "<4>wavelaned: warning: no", "<3>wavelaned: error: end"];
        assert_eq!(plain.lines().take(3).collect::<Vec<_>>(), wanted);
        assert_eq!(level(&format!("panicked{FAULT}")).2, 2);
        let (journal, native) = UnixDatagram::pair().unwrap();
        let by_stream = wrote(&LINES, LogLevel::Info, Reader::Journal(Some(native)));
        assert_eq!(by_stream, "<3>wavelaned: error: end\n", "last words");
        let mut record = [0; 200];
        let mut next = || {
            let len = journal.recv(&mut record).unwrap();
            String::from_utf8(record[..len].to_vec()).unwrap()
        };
        let first = "MESSAGE=peer 'b' is up\nPRIORITY=6\nSYSLOG_IDENTIFIER=wavelaned\nWAVELANE_PEER=b\n";
        assert_eq!(next(), first);
        assert_eq!(next(), "MESSAGE=warning: no\nPRIORITY=4\nSYSLOG_IDENTIFIER=wavelaned\n");
        // Where the journal is gone, standard error has the lines.
        drop(journal);
        let (_, native) = UnixDatagram::pair().unwrap();
        assert_eq!(wrote(&LINES[1..2], LogLevel::Info, Reader::Journal(Some(native))), "<4>wavelaned: warning: no\n");
    }

    #[test]
    fn a_stopped_log_reader_costs_counted_lines() {
        let (mut reader, writer) = UnixStream::pair().unwrap();
        let pen = Pen::to(writer, Reader::People).unwrap();
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
        while pen.orders.try_send(Order::Line(0, "the end".into())).is_err() {
            std::thread::yield_now();
        }
        drop(pen);
        let text = text.join().unwrap();
        // In one piece unless the writer lags before the reader's buffer is full.
        let gaps = text.lines().filter_map(|l| {
            l.split_once("wavelaned: warning: ")?.1.strip_suffix(" messages could not be written here")
        });
        assert_eq!(gaps.map(|n| n.parse::<u64>().unwrap()).sum::<u64>(), lost);
        assert!(text.ends_with("wavelaned: info: the end\n") && text.lines().all(|l| l.contains("Z wavelaned: ")));
    }

    #[test]
    fn a_full_disk_loses_log_lines_only() {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let pen = Pen::to(full, Reader::People).unwrap();
        pen.put("one");
        pen.put("two");
        pen.flush();
        assert_eq!(pen.lost.load(Ordering::Relaxed), 2);
    }
}
