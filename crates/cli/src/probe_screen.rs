//! What a measurement looks like while it goes on: a screen on a terminal, a line now and then elsewhere.

use ratatui::Frame;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style};
use ratatui::symbols::Marker;
use ratatui::text::Line;
use ratatui::widgets::{Axis, Block, Chart, Dataset, Gauge, GraphType, Paragraph};
use std::fs::File;
use std::io::{IsTerminal, Stderr, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use wavelane_probe::drive::View;
use wavelane_probe::plan::{Length, StageKind};

/// Between lines where there is no terminal, in seconds.
const LINE_S: f64 = 5.0;
/// Points that are shown.
const POINTS_MAX: usize = 4_000;

/// A curve's name, colour and points.
type Drawn<'a> = (&'a str, Color, &'a [(f64, f64)]);

/// What is drawn.
#[derive(Default)]
struct Picture {
    target: String,
    of_s: f64,
    rtt: Vec<(f64, f64)>,
    down: Vec<(f64, f64)>,
    up: Vec<(f64, f64)>,
    last: Option<View>,
}

/// A screen stands on the terminal.
static IS_SHOWN: AtomicBool = AtomicBool::new(false);

/// Gives the terminal back for a program that ends at once. It does not wait for whoever is writing to it.
pub(crate) fn give_back() {
    if IS_SHOWN.swap(false, Ordering::Relaxed)
        && let Ok(twin) = std::io::stderr().as_fd().try_clone_to_owned()
    {
        let mut terminal = File::from(twin);
        let _ = execute!(terminal, LeaveAlternateScreen, Show);
    }
}

/// Whether standard error is a terminal that understands more than lines.
fn is_screen() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("TERM").is_some_and(|name| name != "dumb" && !name.is_empty())
}

/// The terminal, cleared, for as long as it is wanted; `None` if standard error is no terminal that can show more than lines.
pub(crate) fn take() -> Option<Terminal<CrosstermBackend<Stderr>>> {
    let mut err = std::io::stderr();
    let fits = is_screen() && {
        IS_SHOWN.store(true, Ordering::Relaxed);
        execute!(err, EnterAlternateScreen, Hide).is_ok()
    };
    let terminal = if fits { Terminal::new(CrosstermBackend::new(err)).ok() } else { None };
    if terminal.is_none() {
        give_back();
    }
    terminal
}

/// The terminal, or lines.
pub(crate) struct Screen {
    picture: Picture,
    terminal: Option<Terminal<CrosstermBackend<Stderr>>>,
    said: Option<(StageKind, f64)>,
}

fn doing(kind: StageKind) -> &'static str {
    match kind {
        StageKind::Idle => "idle, before the load",
        StageKind::Down => "download",
        StageKind::Up => "upload",
        StageKind::Both => "download and upload",
        StageKind::Rest => "letting queues run empty",
        StageKind::After => "idle, after the load",
    }
}

fn line(view: &View) -> String {
    let mut text = format!("{:5.1} s of {:.0} s: {}", view.at_s, view.of_s, doing(view.kind));
    let (down, up) = view.kind.ways();
    if down {
        text += &format!(", {:.1} Mbit/s down", view.down_bps / 1e6);
    }
    if up {
        text += &format!(", {:.1} Mbit/s up", view.up_bps / 1e6);
    }
    match view.rtt_ms {
        Some(ms) => text += &format!(", round trip {ms:.1} ms"),
        None => text += ", no answer yet",
    }
    text
}

impl Screen {
    /// A screen if standard error is a terminal that can show one.
    pub(crate) fn open(target: &str, length: Length) -> Self {
        let of_s = length.as_secs_f64();
        let picture = Picture { target: target.to_owned(), of_s, ..Picture::default() };
        Self { picture, terminal: take(), said: None }
    }

    /// Shows how it goes.
    pub(crate) fn show(&mut self, view: &View) {
        self.picture.add(view);
        match &mut self.terminal {
            // A terminal that went away must not stop the measurement.
            Some(terminal) => drop(terminal.draw(|frame| self.picture.draw(frame))),
            None => {
                let due = self.said.is_none_or(|(kind, at)| kind != view.kind || view.at_s - at >= LINE_S);
                if due {
                    self.said = Some((view.kind, view.at_s));
                    let _ = writeln!(std::io::stderr(), "{}", line(view));
                }
            }
        }
    }

    /// Gives the terminal back as it was.
    pub(crate) fn close(&mut self) {
        if self.terminal.take().is_some() && IS_SHOWN.swap(false, Ordering::Relaxed) {
            let _ = execute!(std::io::stderr(), LeaveAlternateScreen, Show);
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.close();
    }
}

impl Picture {
    fn add(&mut self, view: &View) {
        if self.rtt.len() < POINTS_MAX {
            self.rtt.extend(view.rtt_ms.map(|ms| (view.at_s, ms)));
            self.down.push((view.at_s, view.down_bps / 1e6));
            self.up.push((view.at_s, view.up_bps / 1e6));
        }
        self.last = Some(view.clone());
    }

    fn draw(&self, frame: &mut Frame<'_>) {
        let rows = [
            Constraint::Length(1),
            Constraint::Length(1),
            Constraint::Min(6),
            Constraint::Min(6),
            Constraint::Length(2),
        ];
        let [title, bar, delay, rate, foot] = Layout::vertical(rows).areas(frame.area());
        frame.render_widget(Line::from(format!("wavelane probe {}", self.target)), title);
        let Some(view) = &self.last else { return };
        let done = (view.at_s / view.of_s.max(0.1)).clamp(0.0, 1.0);
        let gauge = Gauge::default().ratio(done).label(doing(view.kind)).gauge_style(Style::new().fg(Color::Blue));
        frame.render_widget(gauge, bar);
        let rtt = [("round trip", Color::Yellow, self.rtt.as_slice())];
        self.chart(frame, delay, "round trip of small packets, ms", &rtt);
        let rates = [("down", Color::Green, self.down.as_slice()), ("up", Color::Cyan, self.up.as_slice())];
        self.chart(frame, rate, "received, Mbit/s", &rates);
        let (sent, answered) = view.probes;
        let text = format!(
            "{}\n{answered} of {sent} probes of this phase answered, {} connections of load. Ctrl-C ends with what was measured.",
            line(view),
            view.streams
        );
        frame.render_widget(Paragraph::new(text), foot);
    }

    fn chart(&self, frame: &mut Frame<'_>, area: Rect, title: &str, curves: &[Drawn<'_>]) {
        let top = curves.iter().flat_map(|c| c.2).map(|p| p.1).fold(1.0, f64::max) * 1.05;
        let sets = curves.iter().map(|(name, colour, points)| {
            let style = Style::new().fg(*colour);
            Dataset::default().name(*name).marker(Marker::Braille).graph_type(GraphType::Line).style(style).data(points)
        });
        let labels = |most: f64, digits: usize| [format!("{:.digits$}", 0.0), format!("{most:.digits$}")];
        let x = Axis::default().bounds([0.0, self.of_s]).labels(labels(self.of_s, 0));
        let y = Axis::default().bounds([0.0, top]).labels(labels(top, 1));
        let chart = Chart::new(sets.collect()).block(Block::bordered().title(title.to_owned())).x_axis(x).y_axis(y);
        frame.render_widget(chart, area);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use ratatui::backend::TestBackend;

    fn view(kind: StageKind, at_s: f64, rtt_ms: Option<f64>) -> View {
        let (down_bps, up_bps) = if kind == StageKind::Down { (9.4e6, 0.0) } else { (0.0, 0.0) };
        View { kind, at_s, of_s: 40.0, down_bps, up_bps, rtt_ms, probes: (100, 98), streams: 4, connected: true }
    }

    #[test]
    fn the_screen_shows_phase_rates_delay_and_the_way_out() {
        let mut picture = Picture { target: "192.0.2.7".into(), of_s: 40.0, ..Picture::default() };
        picture.add(&view(StageKind::Idle, 1.0, Some(20.0)));
        picture.add(&view(StageKind::Down, 10.0, Some(312.0)));
        for (width, height) in [(80, 24), (200, 60), (12, 4), (1, 1)] {
            let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
            terminal.draw(|frame| picture.draw(frame)).unwrap();
            if width < 80 {
                continue;
            }
            let shown = terminal.backend().to_string();
            for part in ["wavelane probe 192.0.2.7", "download", "9.4 Mbit/s down", "312.0 ms", "98 of 100", "Ctrl-C"] {
                assert!(shown.contains(part), "{part} on\n{shown}");
            }
        }
    }

    #[test]
    fn the_plain_line_shows_the_screens_figures() {
        assert_eq!(
            line(&view(StageKind::Down, 10.04, Some(312.0))),
            " 10.0 s of 40 s: download, 9.4 Mbit/s down, round trip 312.0 ms"
        );
        assert!(line(&view(StageKind::Idle, 0.0, None)).ends_with("no answer yet"));
    }
}
