//! `wavelane top`: a running gateway's peers, lanes and flows, or a proxy's connections, live. Rates are differences of two status documents by
//! the daemon's own clock.

use crate::probe_screen::{give_back, take};
use crate::study_show::folded;
use crate::{Failure, Outcome, interrupt, print_while_read};
use clap::Args;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Paragraph, Row, Table};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;
use wavelane_base::text;
use wavelane_daemon::commands::{self, Seen};
use wavelane_daemon::proxy::status as proxy;
use wavelane_daemon::status::{LaneReport, Peer, Report};

/// How often Ctrl-C is looked for while nothing is due.
const LOOK: Duration = Duration::from_millis(100);
/// Flows printed where there is no screen.
const FLOWS_PRINTED: usize = 10;

/// Arguments of `wavelane top`.
#[derive(Args)]
pub(crate) struct TopArgs {
    /// The daemon's control socket; by default the only one in the usual place.
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
    /// Seconds between two looks.
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=3600))]
    every: u64,
    /// End after so many looks; by default only Ctrl-C ends it.
    #[arg(long, value_name = "LOOKS", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
}

impl From<Option<PathBuf>> for TopArgs {
    fn from(control: Option<PathBuf>) -> Self {
        Self { control, every: 1, count: None }
    }
}

/// Shows the gateway until Ctrl-C, or `--count` times: on a screen if standard error is a terminal, else as text on standard output.
pub(crate) fn top(args: &TopArgs) -> Outcome {
    let look = || commands::seen(args.control.as_deref()).map_err(Failure::refused);
    let mut now = look()?;
    let stop = interrupt::flag_before(give_back)?;
    let mut terminal = take();
    let mut before = None;
    let mut looks = 0;
    let ended = loop {
        let view = View::seen(before.as_ref(), &now);
        match &mut terminal {
            Some(terminal) => drop(terminal.draw(|frame| view.draw(frame))),
            None => match print_while_read(&view.to_text()) {
                Ok(true) => {}
                Ok(false) => break Ok(0),
                Err(failure) => break Err(failure),
            },
        }
        looks += 1;
        if args.count.is_some_and(|most| looks >= most) || !pause(args.every, &stop) {
            break Ok(0);
        }
        match look() {
            Ok(next) => before = Some(std::mem::replace(&mut now, next)),
            Err(failure) => break Err(failure),
        }
    };
    drop(terminal);
    give_back();
    ended
}

/// Waits; `false` if Ctrl-C came meanwhile.
fn pause(seconds: u64, stop: &AtomicBool) -> bool {
    let (_kept, bell) = channel::<()>();
    let looks = u128::from(seconds) * 1_000 / LOOK.as_millis();
    (0..looks).all(|_| {
        let _ = bell.recv_timeout(LOOK);
        !stop.load(Ordering::Relaxed)
    })
}

/// A line of a table.
type Fields = [String; 9];

const LANES: [&str; 9] = ["peer, lane", "state", "received", "sent", "in", "out", "round trip", "loss in", "loss out"];
const FLOWS: [&str; 9] = ["from", "to", "received", "sent", "in", "out", "by", "state", "age"];
const CONNECTIONS: [&str; 9] =
    ["client", "server", "sent up", "got down", "up", "down", "client rtt", "server rtt", "age"];

/// What is shown of two documents.
struct View {
    title: String,
    lanes: Vec<Fields>,
    helps: Vec<String>,
    /// Above the flows.
    heads: [&'static str; 9],
    flows: Vec<Fields>,
    /// How many there are; the daemon lists some of them.
    all: usize,
    /// What is counted by the columns "received" and "in", or a proxy's "sent up" and "up".
    counts: &'static str,
}

fn bytes(octets: u64) -> String {
    match octets as f64 {
        b if b < 1e6 => format!("{:.1} kB", b / 1e3),
        b if b < 1e9 => format!("{:.2} MB", b / 1e6),
        b => format!("{:.3} GB", b / 1e9),
    }
}

/// Bits per second from two counts; "-" for the first look, or where a count began anew.
fn rate(before: Option<u64>, now: u64, seconds: f64) -> String {
    match before.and_then(|before| now.checked_sub(before)).filter(|_| seconds > 0.0) {
        Some(octets) => format!("{:.2} Mbit/s", octets as f64 * 8.0 / seconds / 1e6),
        None => "-".into(),
    }
}

fn ms(value: Option<f64>) -> String {
    value.map_or("-".into(), |ms| format!("{ms:.1} ms"))
}

fn share(value: f64) -> String {
    format!("{:.2} %", value * 100.0)
}

impl View {
    fn seen(before: Option<&Seen>, now: &Seen) -> Self {
        match (before, now) {
            (Some(Seen::Gateway(before)), Seen::Gateway(now)) => Self::of(Some(before), now),
            (_, Seen::Gateway(now)) => Self::of(None, now),
            (Some(Seen::Proxy(before)), Seen::Proxy(now)) => Self::of_proxy(Some(before), now),
            (_, Seen::Proxy(now)) => Self::of_proxy(None, now),
        }
    }

    fn of_proxy(before: Option<&proxy::Report>, now: &proxy::Report) -> Self {
        let seconds = before.map_or(0.0, |before| now.uptime_s - before.uptime_s);
        let title = format!(
            "proxy {}, mode {}, up {:.0} s: {} of {} connections, {} wait for their server, {} of {} in the pool",
            now.name,
            now.mode,
            now.uptime_s,
            now.connections,
            now.connections_max,
            now.pending,
            bytes(now.waiting_bytes),
            bytes(now.pool_bytes)
        );
        let warnings = now.hindrances.iter().map(|line| format!("warning: {line}"));
        let helps = now.unlisted().map(str::to_owned).into_iter().chain(warnings).collect();
        let counts = "what the client sends to the server";
        let flows = connections(before, now, seconds);
        let all = flows.len().max(now.connections);
        Self { title, lanes: Vec::new(), helps, heads: CONNECTIONS, flows, all, counts }
    }

    fn of(before: Option<&Report>, now: &Report) -> Self {
        let seconds = before.map_or(0.0, |before| now.uptime_s - before.uptime_s);
        let mut lanes = Vec::new();
        let mut sums: [u64; 2] = [0; 2];
        let mut sums_before = before.map(|_| [0_u64; 2]);
        for peer in &now.peers {
            let earlier = before.and_then(|before| before.peers.iter().find(|p| p.name == peer.name));
            lanes.push(of_peer(earlier, peer, seconds));
            sums = added(sums, peer);
            if let (Some(sums), Some(p)) = (&mut sums_before, earlier) {
                *sums = added(*sums, p);
            }
            if peer.lanes.len() > 1 {
                let at = |place: usize| earlier.and_then(|p| p.lanes.get(place));
                lanes.extend(peer.lanes.iter().enumerate().map(|(place, lane)| of_lane(at(place), lane, seconds)));
            }
        }
        if now.peers.len() > 1 {
            let was = |which: usize| sums_before.map(|sums| sums[which]);
            let rates = [rate(was(0), sums[0], seconds), rate(was(1), sums[1], seconds)];
            let [inward, outward] = rates;
            let none = String::new;
            lanes.push(["all".into(), none(), bytes(sums[0]), bytes(sums[1]), inward, outward, none(), none(), none()]);
        }
        let told = |p: &Peer| p.help().or_else(|| p.cause.as_ref().map(|cause| format!("does not answer: {cause}")));
        let helps = now.peers.iter().filter_map(|p| Some(format!("{}: {}", p.name, told(p)?))).collect();
        let title = format!(
            "gateway {}, up {:.0} s: {} flows, {} connections, {} of {} in the pool",
            now.name,
            now.uptime_s,
            now.flows,
            now.door.connections,
            bytes(now.buffered_bytes),
            bytes(now.pool_bytes)
        );
        let counts = "what came from the peer";
        let flows = flows(before, now, seconds);
        let all = flows.len().max(now.door.connections);
        Self { title, lanes, helps, heads: FLOWS, flows, all, counts }
    }

    /// Without a screen.
    fn to_text(&self) -> String {
        let mut out = format!("{}\n", self.title);
        let shown = self.flows.iter().take(FLOWS_PRINTED);
        let tables = [(LANES, self.lanes.iter().collect::<Vec<_>>()), (self.heads, shown.collect())];
        for (heads, rows) in tables.into_iter().filter(|(_, rows)| !rows.is_empty()) {
            let width = |column: usize| {
                rows.iter().map(|row| row[column].chars().count()).chain([heads[column].len()]).max().unwrap_or(0)
            };
            let widths: Vec<usize> = (0..heads.len()).map(width).collect();
            for row in std::iter::once(heads.map(str::to_owned)).chain(rows.into_iter().cloned()) {
                let fields: Vec<String> =
                    row.iter().zip(&widths).map(|(field, width)| format!("{field:<width$}")).collect();
                let _ = writeln!(out, "  {}", fields.join("  ").trim_end());
            }
        }
        if let Some(line) = more(self.all, self.flows.len().min(FLOWS_PRINTED)) {
            let _ = writeln!(out, "  {line}");
        }
        self.helps.iter().for_each(|line| out += &format!("{line}\n"));
        out
    }

    fn draw(&self, frame: &mut Frame<'_>) {
        let height = |rows: usize| u16::try_from(rows).unwrap_or(u16::MAX);
        let told = self.helps.iter().flat_map(|line| folded(line, 2, usize::from(frame.area().width)));
        let told: Vec<String> = told.collect();
        let rows = [
            Constraint::Length(1),
            Constraint::Length(if self.lanes.is_empty() { 0 } else { height(self.lanes.len() + 1) }),
            Constraint::Length(height(told.len() + 1)),
            Constraint::Min(0),
            Constraint::Length(1),
        ];
        let [title, lanes, helps, flows, foot] = Layout::vertical(rows).areas(frame.area());
        // Names and addresses of others move no cursor.
        frame.render_widget(Line::from(text::line(&self.title, usize::MAX).into_owned()), title);
        let columns = Columns::of(&self.lanes, [20, 6, 10, 10, 15, 15, 10, 8, 8], lanes.width);
        frame.render_widget(columns.table(LANES, &self.lanes), lanes);
        frame.render_widget(Paragraph::new(told.join("\n")), helps);
        let columns = Columns::of(&self.flows, [22, 22, 10, 10, 15, 15, 10, 11, 6], flows.width);
        // Below the names of the columns.
        let room = usize::from(flows.height.saturating_sub(1));
        let fits = self.all <= self.flows.len().min(room);
        let seen = self.flows.len().min(if fits { room } else { room.saturating_sub(1) });
        frame.render_widget(columns.table(self.heads, &self.flows[..seen]), flows);
        if let Some(last) = more(self.all, seen).filter(|_| room > 0) {
            let place = Rect { y: flows.bottom() - 1, height: 1, ..flows };
            frame.render_widget(Line::from(last), place);
        }
        // Only of columns that are there.
        let [sum, rate] = [COUNTED, COUNTED + 2].map(|column| self.heads[column]);
        let names = if columns.has(COUNTED) { format!("{sum}, {rate}") } else { rate.to_owned() };
        frame.render_widget(Line::from(format!("{names}: {}. Ctrl-C ends.", self.counts)), foot);
    }
}

/// What stands for rows beyond those shown.
fn more(all: usize, shown: usize) -> Option<String> {
    (all > shown).then(|| format!("and {} more", all - shown))
}

/// The column of what came from the peer, of a proxy from the client; its rate is two further on.
const COUNTED: usize = 2;
/// Columns of names and addresses; they come first.
const NAMES: usize = 2;

/// Columns that a narrow screen goes without, the first of them first: who it is and the rates stay.
const DISPENSABLE: [usize; 5] = [8, 3, 2, 7, 6];

/// Which columns are shown, and how wide each is.
struct Columns(Vec<(usize, usize)>);

impl Columns {
    fn of(rows: &[Fields], widths: [usize; 9], room: u16) -> Self {
        // Names and addresses as long as they are.
        let longest = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let wide =
            |(column, width): (usize, usize)| (column, if column < NAMES { width.max(longest(column)) } else { width });
        let mut columns: Vec<(usize, usize)> = widths.into_iter().enumerate().map(wide).collect();
        // One between each two.
        let excess = |columns: &[(usize, usize)]| {
            columns.iter().map(|(_, width)| width + 1).sum::<usize>().saturating_sub(usize::from(room) + 1)
        };
        for dispensable in DISPENSABLE {
            if excess(&columns) > 0 {
                columns.retain(|(column, _)| *column != dispensable);
            }
        }
        // What is too long even so is cut, the longest first.
        for _ in 0..excess(&columns) {
            let names = columns.iter_mut().take(NAMES);
            names.max_by_key(|(_, width)| *width).into_iter().for_each(|(_, width)| *width = width.saturating_sub(1));
        }
        Self(columns)
    }
    fn has(&self, column: usize) -> bool {
        self.0.iter().any(|(shown, _)| *shown == column)
    }
    fn table(&self, heads: [&str; 9], rows: &[Fields]) -> Table<'static> {
        let of = |fields: &[String]| {
            let cell =
                |(column, width): &(usize, usize)| Cell::from(cut(&text::line(&fields[*column], usize::MAX), *width));
            Row::new(self.0.iter().map(cell).collect::<Vec<_>>())
        };
        let head = of(&heads.map(str::to_owned)).style(Style::new().add_modifier(Modifier::BOLD));
        let widths = self.0.iter().map(|(_, width)| Constraint::Length(u16::try_from(*width).unwrap_or(u16::MAX)));
        Table::new(rows.iter().map(|row| of(row)), widths.collect::<Vec<_>>()).header(head)
    }
}

/// A text in so many columns: of one that is longer both ends, for the port is the last of an address.
fn cut(text: &str, width: usize) -> String {
    let long = text.chars().count();
    if long <= width {
        return text.to_owned();
    }
    let tail = width / 3;
    let head: String = text.chars().take(width.saturating_sub(tail + 1)).collect();
    let end: String = text.chars().skip(long - tail).collect();
    format!("{head}…{end}")
}

/// Received and sent, with those of one more peer.
fn added(sums: [u64; 2], peer: &Peer) -> [u64; 2] {
    [sums[0].saturating_add(peer.traffic.received_bytes), sums[1].saturating_add(peer.traffic.sent_bytes)]
}

fn of_peer(before: Option<&Peer>, p: &Peer, seconds: f64) -> Fields {
    let t = p.traffic;
    [
        p.name.clone(),
        if p.up { "up".into() } else { "down".into() },
        bytes(t.received_bytes),
        bytes(t.sent_bytes),
        rate(before.map(|p| p.traffic.received_bytes), t.received_bytes, seconds),
        rate(before.map(|p| p.traffic.sent_bytes), t.sent_bytes, seconds),
        ms(p.rtt_ms),
        share(p.loss_in),
        share(p.loss),
    ]
}

fn of_lane(before: Option<&LaneReport>, lane: &LaneReport, seconds: f64) -> Fields {
    let t = lane.traffic;
    let state = match &lane.unused {
        None => "used",
        Some(why) if why.starts_with("in reserve") => "spare",
        Some(_) => "not",
    };
    [
        format!("  {} by {}", lane.name, lane.by),
        state.into(),
        bytes(t.received_bytes),
        bytes(t.sent_bytes),
        rate(before.map(|lane| lane.traffic.received_bytes), t.received_bytes, seconds),
        rate(before.map(|lane| lane.traffic.sent_bytes), t.sent_bytes, seconds),
        ms(lane.rtt_ms),
        "-".into(),
        share(lane.loss),
    ]
}

/// The connections, those that move most now first.
fn flows(before: Option<&Report>, now: &Report, seconds: f64) -> Vec<Fields> {
    let earlier: BTreeMap<(&str, &str), (u64, u64)> = before
        .map(|before| before.flow_list.iter().map(|f| ((&*f.source, &*f.target), (f.out_bytes, f.in_bytes))).collect())
        .unwrap_or_default();
    let moved = |f: &wavelane_daemon::status::FlowReport| {
        let was = earlier.get(&(&*f.source, &*f.target)).copied();
        was.map_or(0, |was| f.out_bytes.saturating_add(f.in_bytes).saturating_sub(was.0.saturating_add(was.1)))
    };
    let mut list: Vec<_> = now.flow_list.iter().collect();
    // Stable: equal ones stay in the document's order.
    list.sort_by_key(|f| std::cmp::Reverse(moved(f)));
    let row = |f: &wavelane_daemon::status::FlowReport| {
        let was = earlier.get(&(&*f.source, &*f.target)).copied();
        [
            f.source.clone(),
            f.target.clone(),
            bytes(f.out_bytes),
            bytes(f.in_bytes),
            rate(was.map(|was| was.0), f.out_bytes, seconds),
            rate(was.map(|was| was.1), f.in_bytes, seconds),
            f.peer.clone(),
            f.state.clone(),
            format!("{:.0} s", f.age_s),
        ]
    };
    list.into_iter().map(row).collect()
}

/// The connections of a proxy, those that move most now first.
fn connections(before: Option<&proxy::Report>, now: &proxy::Report, seconds: f64) -> Vec<Fields> {
    let moved = |c: &proxy::Connection| {
        let near = c.near.as_ref().map_or((0, 0), |half| (half.in_bytes, half.out_bytes));
        let far = c.far.as_ref().map_or((0, 0), |half| (half.out_bytes, half.in_bytes));
        (near.0.max(far.0), near.1.max(far.1))
    };
    let list = before.map_or(&[][..], |before| &before.connection_list);
    let earlier: BTreeMap<(&str, &str), (u64, u64)> =
        list.iter().map(|c| ((&*c.source, &*c.target), moved(c))).collect();
    let was = |c: &proxy::Connection| earlier.get(&(&*c.source, &*c.target)).copied();
    let mut list: Vec<_> = now.connection_list.iter().collect();
    let (sum, of) =
        (|(up, down): (u64, u64)| up.saturating_add(down), |c: &proxy::Connection| was(c).unwrap_or(moved(c)));
    // Stable: equal ones stay in the document's order.
    list.sort_by_key(|c| std::cmp::Reverse(sum(moved(c)).saturating_sub(sum(of(c)))));
    let trip = |half: &Option<proxy::Half>| ms(half.as_ref().and_then(|half| half.rtt_ms));
    let row = |c: &proxy::Connection| {
        let ((up, down), was) = (moved(c), was(c));
        [
            c.source.clone(),
            c.target.clone(),
            bytes(up),
            bytes(down),
            rate(was.map(|was| was.0), up, seconds),
            rate(was.map(|was| was.1), down, seconds),
            trip(&c.near),
            trip(&c.far),
            format!("{:.0} s", c.age_s),
        ]
    };
    list.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use wavelane_daemon::status::{FlowReport, Traffic};

    fn report(uptime_s: f64, received_bytes: u64) -> Report {
        let traffic = Traffic { received_bytes, sent_bytes: received_bytes / 10, ..Traffic::default() };
        let lane = LaneReport { name: "lane 1".into(), by: "wwan0".into(), traffic, ..LaneReport::default() };
        let peer = |name: &str| Peer {
            name: name.into(),
            up: true,
            rtt_ms: Some(62.0),
            loss_in: 0.02,
            traffic,
            lanes: vec![lane.clone(), lane.clone()],
            ..Peer::default()
        };
        let flow = |port: u16, out_bytes| FlowReport {
            source: format!("10.1.0.2:{port}"),
            target: "10.3.0.2:80".into(),
            peer: "shore".into(),
            state: "open".into(),
            out_bytes,
            ..FlowReport::default()
        };
        let flow_list = vec![flow(1, 900_000_000), flow(2, received_bytes)];
        Report {
            name: "ship".into(),
            uptime_s,
            peers: vec![peer("shore"), peer("hill")],
            flow_list,
            ..Report::default()
        }
    }

    #[test]
    fn rates_are_differences_by_the_gateways_clock_and_all_peers_are_added_up() {
        let view = View::of(Some(&report(10.0, 1_000_000)), &report(12.0, 6_000_000));
        assert_eq!(view.lanes[0][..6], ["shore", "up", "6.00 MB", "600.0 kB", "20.00 Mbit/s", "2.00 Mbit/s"]);
        assert_eq!(view.lanes[1][..2], ["  lane 1 by wwan0", "used"]);
        assert_eq!(view.lanes.last().unwrap()[..5], ["all", "", "12.00 MB", "1.20 MB", "40.00 Mbit/s"]);
        assert_eq!(view.flows[0][0], "10.1.0.2:2", "what moves now stands first");
        assert_eq!(view.flows[0][4], "20.00 Mbit/s");
        let first = View::of(None, &report(10.0, 1_000_000));
        assert_eq!(first.lanes[0][4], "-", "one look has no rate");
        // A gateway that was started again counts anew.
        assert_eq!(View::of(Some(&report(10.0, 5)), &report(1.0, 4)).lanes[0][4], "-");
    }

    #[test]
    fn a_proxy_shows_its_connections_with_their_rates() {
        let report = |uptime_s: f64, up: u64| {
            let half = |in_bytes, out_bytes| {
                Some(proxy::Half { in_bytes, out_bytes, rtt_ms: Some(62.0), ..proxy::Half::default() })
            };
            let one = |port: u16, up| proxy::Connection {
                source: format!("10.1.0.2:{port}"),
                target: "10.3.0.2:80".into(),
                near: half(up, 5_000),
                far: half(5_000, up),
                ..proxy::Connection::default()
            };
            let connection_list = vec![one(1, 900_000_000), one(2, up)];
            let (name, connections) = ("edge".into(), 2);
            Seen::Proxy(Box::new(proxy::Report { name, uptime_s, connections, connection_list, ..Default::default() }))
        };
        let view = View::seen(Some(&report(10.0, 1_000_000)), &report(12.0, 6_000_000));
        assert!(view.title.starts_with("proxy edge, ") && view.title.contains("2 of 0 connections"), "{}", view.title);
        let row = ["10.1.0.2:2", "10.3.0.2:80", "6.00 MB", "5.0 kB", "20.00 Mbit/s", "0.00 Mbit/s", "62.0 ms"];
        assert_eq!(view.flows[0][..7], row, "what moves now stands first");
        let text = view.to_text();
        assert!(text.contains("client rtt") && text.contains("20.00 Mbit/s"), "{text}");
        assert_eq!(View::seen(None, &report(12.0, 6_000_000)).flows[0][4], "-", "one look has no rate");
    }

    #[test]
    fn why_there_is_nothing_to_see_is_said() {
        let mut down = report(10.0, 0);
        down.peers[0].up = false;
        down.peers[0].cause = Some("nothing listens: start it".into());
        assert!(View::of(None, &down).to_text().contains("does not answer: nothing listens: start it"));
        let of =
            |mode: &str| View::of_proxy(None, &proxy::Report { mode: mode.into(), ..Default::default() }).to_text();
        assert!(of("snoop").contains("a snoop ends no connections") && !of("split").contains("ends no"));
    }

    #[test]
    fn a_narrow_screen_shows_who_and_how_fast_and_no_empty_table() {
        let half = || Some(proxy::Half { in_bytes: 5_000, rtt_ms: Some(62.0), ..proxy::Half::default() });
        let report = |uptime_s: f64, in_bytes| {
            let (source, target) = ("192.168.100.217:54321".into(), "203.113.100.219:65432".into());
            let near = Some(proxy::Half { in_bytes, ..proxy::Half::default() });
            let connection_list = vec![proxy::Connection { source, target, near, far: half(), ..Default::default() }];
            Seen::Proxy(Box::new(proxy::Report { uptime_s, connection_list, ..Default::default() }))
        };
        let view = View::seen(Some(&report(1.0, 0)), &report(2.0, 154_320_000));
        let screen = |width| {
            let mut terminal = Terminal::new(TestBackend::new(width, 12)).unwrap();
            terminal.draw(|frame| view.draw(frame)).unwrap();
            terminal.backend().to_string()
        };
        for width in [80, 200] {
            let shown = screen(width);
            for part in ["192.168.100.217:54321 ", "203.113.100.219:65432 ", "1234.56 Mbit/s"] {
                assert!(shown.contains(part), "{part} on\n{shown}");
            }
            assert_eq!((shown.contains("peer, lane"), shown.contains("age")), (false, width == 200), "{shown}");
        }
    }

    /// Both ends of an address of IPv6 are to be told from others', its port too; and nothing is explained that is not there.
    #[test]
    fn long_names_are_cut_with_a_mark_and_what_is_left_out_is_counted() {
        let one = |port: u16| proxy::Connection {
            source: format!("[2001:db8:aaaa:bbbb:cccc:dddd:eeee:1]:{port}"),
            target: "[2001:db8:1111:2222:3333:4444:5555:2]:443".into(),
            ..Default::default()
        };
        let connection_list: Vec<_> = (50_000..50_020).map(one).collect();
        let report = proxy::Report { connections: 300, connection_list, ..Default::default() };
        let view = View::of_proxy(None, &report);
        let screen = |width, height| {
            let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
            terminal.draw(|frame| view.draw(frame)).unwrap();
            terminal.backend().to_string()
        };
        let narrow = screen(80, 12);
        for part in ["[2001:db8:aaaa:", "…", "]:50000 ", "]:443 ", "and 293 more", "up: what the client sends"] {
            assert!(narrow.contains(part), "{part} on\n{narrow}");
        }
        assert!(!narrow.contains("sent up"), "{narrow}");
        let wide = screen(200, 40);
        let whole = "[2001:db8:aaaa:bbbb:cccc:dddd:eeee:1]:50019";
        assert!(wide.contains(whole) && !wide.contains('…') && wide.contains("and 280 more"), "{wide}");
        assert!(wide.contains("sent up, up: what the client sends"), "{wide}");
        assert!(view.to_text().contains("  and 290 more\n"), "{}", view.to_text());
        assert_eq!(["", "ab", "abcdef"].map(|text| cut(text, 3)), ["", "ab", "a…f"]);
    }

    /// What helps, and a warning's remedy, stand at the end of their lines.
    #[test]
    fn what_is_told_of_peers_is_folded_and_not_cut() {
        let view = View::of(None, &report(10.0, 1_000_000));
        let mut terminal = Terminal::new(TestBackend::new(30, 30)).unwrap();
        terminal.draw(|frame| view.draw(frame)).unwrap();
        let screen = terminal.backend().to_string();
        assert!(view.helps.iter().any(|told| told.len() > 30), "{:?}", view.helps);
        for word in view.helps.iter().flat_map(|told| told.split_whitespace()) {
            assert!(screen.contains(word), "{word} on\n{screen}");
        }
    }

    #[test]
    fn the_screen_and_the_text_show_the_same() {
        let view = View::of(Some(&report(10.0, 1_000_000)), &report(12.0, 6_000_000));
        for (width, height) in [(140, 30), (12, 4), (1, 1)] {
            let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
            terminal.draw(|frame| view.draw(frame)).unwrap();
            if width < 140 {
                continue;
            }
            let (screen, text) = (terminal.backend().to_string(), view.to_text());
            for part in
                ["gateway ship", "shore", "6.00 MB", "20.00 Mbit/s", "62.0 ms", "2.00 %", "10.1.0.2:2", "helps: "]
            {
                assert!(screen.contains(part), "{part} on\n{screen}");
                assert!(text.contains(part), "{part} in\n{text}");
            }
        }
    }
}
