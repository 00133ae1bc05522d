//! Progress on standard error: a redrawn line on a terminal, a plain line now and then otherwise.

use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use wavelane_run::{Count, Progress};

/// Nothing is shown for runs shorter than this.
const QUIET: Duration = Duration::from_secs(2);
/// Between redraws on a terminal.
const REDRAW: Duration = Duration::from_millis(200);
/// Between lines elsewhere.
const LINE: Duration = Duration::from_secs(5);
/// How long what a run told last stands beside a count that is shown again.
const FRESH: Duration = Duration::from_secs(30);
/// Longest line of progress.
const LINE_MAX: usize = 1_000;
/// Between checks whether the count is due to be shown again.
const GLANCE: Duration = Duration::from_secs(1);

/// Shows progress; shared by the workers of a run.
pub(crate) struct Meter {
    state: Arc<Mutex<State>>,
}

struct State {
    terminal: bool,
    started: Instant,
    shown: Option<Instant>,
    drawn: bool,
    /// How many runs of a larger whole are over, and since when they are counted.
    count: Option<Counted>,
    /// What a run told last, and when; forgotten when a run is over.
    run: Option<(String, Instant)>,
}

#[derive(Clone, Copy)]
struct Counted {
    count: Count,
    /// When the first count came, and the last.
    since: Instant,
    last: Instant,
}

#[expect(clippy::disallowed_methods, reason = "a person's patience is measured on the wall clock")]
fn now() -> Instant {
    Instant::now()
}

/// `at` and `of` in seconds; a run whose end is a size and not a time has none of either.
fn line(run: &str, at: f64, of: f64, note: &str) -> String {
    let time = (of > 0.0).then(|| format!("{at:.1} s of at most {of:.0} s"));
    let note = (!note.is_empty()).then(|| note.to_owned());
    let parts: Vec<String> = time.into_iter().chain(note).collect();
    format!("{run}: {}", parts.join(", "))
}

/// "33 of 100 draws, 2 min left". The whole is expected to take as long as what was over at the last count promised, so
/// what is left shrinks until the next one; when nothing of that is left, nothing is promised.
fn counted(count: &Count, until_last: Duration, passed: Duration) -> String {
    let left = until_last.as_secs_f64() / count.share - passed.as_secs_f64();
    let left = match left {
        _ if count.share <= 0.0 || left < 1.0 => String::new(),
        s if s < 90.0 => format!(", {s:.0} s left"),
        s => format!(", {:.0} min left", s / 60.0),
    };
    format!("{} of {} {}{left}", count.done, count.of, count.what)
}

impl Meter {
    pub(crate) fn new() -> Self {
        let terminal = std::io::stderr().is_terminal();
        let state =
            Arc::new(Mutex::new(State { terminal, started: now(), shown: None, drawn: false, count: None, run: None }));
        // A count does not change while a long task runs. It is shown again meanwhile, so that the program is not silent.
        let watched = Arc::downgrade(&state);
        let again = move || {
            while let Some(state) = watched.upgrade() {
                let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
                if state.count.is_some() && state.shown.is_none_or(|shown| now().duration_since(shown) >= LINE) {
                    state.draw(None);
                }
                drop(state);
                std::thread::park_timeout(GLANCE);
            }
        };
        // Without the thread only the repeated lines are missing.
        drop(std::thread::Builder::new().name("progress".into()).spawn(again));
        Self { state }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows `p` if it is time.
    pub(crate) fn show(&self, p: &Progress) {
        let run = format!("{} seed {}", p.stack, p.seed.0);
        self.state().draw(Some(&line(&run, p.at.as_secs_f64(), p.of.as_secs_f64(), &p.note)));
    }

    /// Shows a line, if it is time.
    pub(crate) fn say(&self, text: &str) {
        self.state().draw(Some(text));
    }

    /// Shows how many are over, if it is time, and from now on beside each run's progress.
    pub(crate) fn count(&self, c: &Count) {
        let mut state = self.state();
        let last = now();
        // A share of nothing begins a new whole.
        let since = state.count.filter(|_| c.share > 0.0).map_or(last, |counted| counted.since);
        state.count = Some(Counted { count: *c, since, last });
        state.run = None;
        state.draw(None);
    }

    /// Wipes the redrawn line; what was counted is over.
    pub(crate) fn finish(&self) {
        let mut state = self.state();
        state.count = None;
        state.run = None;
        if std::mem::take(&mut state.drawn) {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

impl State {
    fn draw(&mut self, run: Option<&str>) {
        let now = now();
        if let Some(run) = run {
            self.run = Some((run.to_owned(), now));
        }
        let every = if self.terminal { REDRAW } else { LINE };
        if now.duration_since(self.started) < QUIET || self.shown.is_some_and(|t| now.duration_since(t) < every) {
            return;
        }
        self.shown = Some(now);
        let count = self.count.map(|c| counted(&c.count, c.last.duration_since(c.since), now.duration_since(c.since)));
        let run = self.run.iter().filter(|(_, told)| now.duration_since(*told) < FRESH).map(|(run, _)| run.clone());
        let text = count.into_iter().chain(run).collect::<Vec<_>>().join("; ");
        // A run is named by its scenario.
        let text = wavelane_base::text::line(&text, LINE_MAX);
        let mut err = std::io::stderr().lock();
        // Progress is a courtesy: a closed standard error must not stop the run.
        let _ = if self.terminal { write!(err, "\r\x1b[K{text}") } else { writeln!(err, "{text}") };
        let _ = err.flush();
        self.drawn = self.terminal;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_follows_from_the_share_of_the_work() {
        let told = |share, last, s| {
            let count = Count { what: "draws", done: 33, of: 100, share };
            counted(&count, Duration::from_secs(last), Duration::from_secs(s))
        };
        assert_eq!(told(0.5, 120, 120), "33 of 100 draws, 2 min left");
        assert_eq!(told(0.5, 40, 40), "33 of 100 draws, 40 s left");
        assert_eq!(told(0.0, 0, 9), "33 of 100 draws");
    }

    #[test]
    fn the_time_left_shrinks_while_a_task_runs() {
        let count = Count { what: "runs", done: 2, of: 3, share: 2.0 / 3.0 };
        let told = |s| counted(&count, Duration::from_secs(140), Duration::from_secs(s));
        assert_eq!(
            [told(140), told(200), told(230)],
            ["2 of 3 runs, 70 s left", "2 of 3 runs, 10 s left", "2 of 3 runs"]
        );
    }

    #[test]
    fn a_count_shown_again_keeps_beside_it_what_a_run_told_last() {
        let meter = Meter::new();
        meter.count(&Count { what: "runs", done: 0, of: 3, share: 0.0 });
        meter.say("tcp-reno seed 2: page");
        meter.state().draw(None);
        assert_eq!(meter.state().run.as_ref().map(|(run, _)| run.as_str()), Some("tcp-reno seed 2: page"));
        meter.count(&Count { what: "runs", done: 1, of: 3, share: 0.3 });
        assert!(meter.state().run.is_none(), "that run is over");
    }

    #[test]
    fn a_run_without_a_duration_shows_its_note() {
        let told = |of, note| line("tcp-reno seed 2", 1.04, of, note);
        assert_eq!(told(60.0, ""), "tcp-reno seed 2: 1.0 s of at most 60 s");
        assert_eq!(told(60.0, "page"), "tcp-reno seed 2: 1.0 s of at most 60 s, page");
        assert_eq!(told(0.0, "0.1 % loss"), "tcp-reno seed 2: 0.1 % loss");
    }
}
