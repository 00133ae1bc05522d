//! `wavelane ping`: round trips and loss of each lane to a peer, by echoes inside the link.

use super::CommandError;
use super::ask::Asking;
use super::reload::time;
use crate::request::{Answer, Ask, EchoAnswer, WAIT_MAX};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;
use wavelane_base::{Instant, Span};
use wavelane_host::clock::since_boot;

/// The document's format name.
pub const PING_FORMAT: &str = "wavelane-ping/1";
/// The shortest interval: more often the echoes would be the load.
const INTERVAL_MIN: Span = Span::from_millis(10);
const INTERVAL_MAX: Span = Span::from_secs(3_600);
/// How often Ctrl-C is looked for.
const LOOK: Duration = Duration::from_millis(50);
/// The daemon says that an echo is lost no later than this after its time.
const DAEMON_LATE: Span = Span::from_secs(5);

const EXAMPLES: &str = "\
Examples:
  wavelane ping shore                        until Ctrl-C: each lane's round trip, then loss, min/avg/max/mdev
  wavelane ping shore --count 20 --interval 200ms
  wavelane ping shore --count 5 --json       one JSON document (docs/schema/wavelane-ping-1.schema.json)

An echo is a small datagram of the link itself, sealed and sent by one lane; the peer's gateway answers at once, by the lane that is
quickest for it. So it measures what traffic gets (encryption, queue and all), and needs no address inside the tunnel. A peer that is
not connected is called first.

Exit codes: 0 an answer came, 1 none came, 2 refused.";

/// `wavelane ping`.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct PingArgs {
    /// The peer, as the configuration calls it.
    #[arg(value_name = "PEER")]
    pub peer: String,
    /// End after so many echoes by each lane; by default only Ctrl-C ends it.
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub count: Option<u64>,
    /// Time between two echoes.
    #[arg(long, short, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub interval: Span,
    /// An echo that is not answered for so long is lost.
    #[arg(long, short = 'W', value_name = "TIME", default_value = "10s", value_parser = wait)]
    pub wait: Span,
    /// Print one JSON document at the end, and nothing else.
    #[arg(long)]
    pub json: bool,
    /// The daemon's control socket; by default the only one in the usual place.
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
}

fn interval(text: &str) -> Result<Span, String> {
    let span = time(text)?;
    match (INTERVAL_MIN..=INTERVAL_MAX).contains(&span) {
        true => Ok(span),
        false => Err(format!("'{text}' is not between 10ms and 1h")),
    }
}

fn wait(text: &str) -> Result<Span, String> {
    let span = time(text)?;
    match (INTERVAL_MIN..=WAIT_MAX).contains(&span) {
        true => Ok(span),
        false => Err(format!("'{text}' is not between 10ms and 10min")),
    }
}

/// What became of the echoes by one lane.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LanePings {
    /// The lane's name.
    pub lane: String,
    /// By which it leaves: its device, or its own address.
    pub by: String,
    /// Echoes whose fate is known.
    pub sent: u64,
    /// Of those, how many were answered.
    pub answered: u64,
    /// Share that was not, 0 to 1.
    pub loss: f64,
    /// The quickest round trip.
    pub min_ms: Option<f64>,
    /// Their mean.
    pub avg_ms: Option<f64>,
    /// The slowest.
    pub max_ms: Option<f64>,
    /// Their standard deviation, as ping(8) has it.
    pub mdev_ms: Option<f64>,
    #[serde(skip)]
    sums: (f64, f64),
}

/// The whole of a ping.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Pings {
    /// [`PING_FORMAT`].
    #[cfg_attr(test, schemars(extend("const" = PING_FORMAT)))]
    pub format: String,
    /// The peer.
    pub peer: String,
    /// Its lanes, in the order in which they were first heard of.
    pub lanes: Vec<LanePings>,
}

impl LanePings {
    fn note(&mut self, round_trip_ms: Option<f64>) {
        self.sent += 1;
        if let Some(ms) = round_trip_ms {
            self.answered += 1;
            self.sums = (self.sums.0 + ms, self.sums.1 + ms * ms);
            let mean = self.sums.0 / self.answered as f64;
            self.min_ms = Some(self.min_ms.map_or(ms, |least| least.min(ms)));
            self.max_ms = Some(self.max_ms.map_or(ms, |most| most.max(ms)));
            self.avg_ms = Some(mean);
            self.mdev_ms = Some((self.sums.1 / self.answered as f64 - mean * mean).max(0.0).sqrt());
        }
        self.loss = (self.sent - self.answered) as f64 / self.sent as f64;
    }
}

impl Pings {
    /// Whether any echo was answered.
    pub fn any(&self) -> bool {
        self.lanes.iter().any(|lane| lane.answered > 0)
    }
    fn note(&mut self, echo: &EchoAnswer) {
        let place = self.lanes.iter().position(|lane| (&lane.lane, &lane.by) == (&echo.lane, &echo.by));
        let place = place.unwrap_or_else(|| {
            self.lanes.push(LanePings { lane: echo.lane.clone(), by: echo.by.clone(), ..LanePings::default() });
            self.lanes.len() - 1
        });
        self.lanes[place].note(echo.round_trip_ms);
    }
}

impl fmt::Display for Pings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "--- {} ping statistics ---", self.peer)?;
        for lane in &self.lanes {
            let LanePings { lane: name, by, sent, answered, loss, .. } = lane;
            write!(f, "{name} by {by}: {sent} sent, {answered} answered, {:.1} % loss", loss * 100.0)?;
            if let (Some(min), Some(avg), Some(max), Some(mdev)) = (lane.min_ms, lane.avg_ms, lane.max_ms, lane.mdev_ms)
            {
                write!(f, ", round trip min/avg/max/mdev = {min:.3}/{avg:.3}/{max:.3}/{mdev:.3} ms")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// Pings a peer until `args.count`, or until `stops` says so. `line` is called with each outcome in words, as it comes.
pub fn ping(
    args: &PingArgs,
    stops: impl Fn() -> bool,
    mut line: impl FnMut(&str) -> Result<(), CommandError>,
) -> Result<Pings, CommandError> {
    let mut asking = Asking::begin(args.control.as_deref())?;
    let mut pings = Pings { format: PING_FORMAT.into(), peer: args.peer.clone(), lanes: Vec::new() };
    let (mut asked, mut due): (u64, Instant) = (0, since_boot());
    let all = |asked: u64| args.count.is_some_and(|count| asked >= count);
    // How many lanes of each number are not heard of yet, and how many numbers are done with.
    let (mut open, mut done) = (BTreeMap::<u64, usize>::new(), 0);
    let mut end = None;
    while !(stops() || all(asked) && done == asked) && end.is_none_or(|end| since_boot() < end) {
        let now = since_boot();
        if now >= due && !all(asked) {
            asked += 1;
            let wait_ms = args.wait.as_nanos() / 1_000_000;
            asking.ask(&Ask::Ping { peer: args.peer.clone(), number: asked, wait_ms })?;
            // After a pause of this program itself it does not hurry.
            due = (due + args.interval).max(now);
            end = all(asked).then_some(now + args.wait + DAEMON_LATE);
        }
        let left = if end.is_some() { LOOK } else { Duration::from_nanos(due.since(now).as_nanos()).min(LOOK) };
        match asking.hear(left)? {
            None => {}
            Some(Answer::Echo(echo)) => {
                let left = open.entry(echo.number).or_insert(echo.lanes);
                *left = left.saturating_sub(1);
                if *left == 0 {
                    open.remove(&echo.number);
                    done += 1;
                }
                pings.note(&echo);
                line(&words(&echo))?;
            }
            Some(Answer::Refused(why)) => return Err(CommandError::Refused(why)),
            Some(Answer::Done(_) | Answer::About(_)) => return Err(asking.strange_answer()),
        }
    }
    Ok(pings)
}

fn words(echo: &EchoAnswer) -> String {
    let EchoAnswer { number, lane, by, round_trip_ms, why, .. } = echo;
    match (round_trip_ms, why) {
        (Some(ms), _) => format!("{lane} by {by}: seq={number} time={ms:.3} ms"),
        (None, Some(why)) => format!("{lane} by {by}: seq={number} no answer: {why}"),
        (None, None) => format!("{lane} by {by}: seq={number} no answer"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn echo(lane: &str, number: u64, round_trip_ms: Option<f64>) -> EchoAnswer {
        EchoAnswer { number, lanes: 2, lane: lane.into(), by: "eth0".into(), round_trip_ms, why: None }
    }

    #[test]
    fn lanes_are_summed_up_as_ping_does() {
        let mut pings = Pings { peer: "shore".into(), ..Pings::default() };
        assert!(!pings.any());
        for ms in [Some(10.0), Some(30.0), None, Some(20.0)] {
            pings.note(&echo("lane 1", 1, ms));
        }
        pings.note(&echo("lane 2", 1, None));
        assert!(pings.any());
        let text = pings.to_string();
        let first = "lane 1 by eth0: 4 sent, 3 answered, 25.0 % loss, round trip min/avg/max/mdev = 10.000/20.000/30.000/8.165 ms\n";
        assert!(text.contains(first), "{text}");
        assert!(text.ends_with("lane 2 by eth0: 1 sent, 0 answered, 100.0 % loss\n"), "{text}");
    }

    #[test]
    fn intervals_have_bounds() {
        assert_eq!(interval("200ms"), Ok(Span::from_millis(200)));
        for wrong in ["1ms", "2h", "0s", "fast"] {
            assert!(interval(wrong).is_err(), "{wrong}");
        }
    }

    /// The committed schema is what these types write. To renew it: `WAVELANE_SCHEMA=write cargo test -p wavelane-daemon schema`.
    #[test]
    fn the_schema_of_a_ping_is_the_committed_one() {
        let schema =
            schemars::generate::SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<Pings>();
        let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
        let file =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema/wavelane-ping-1.schema.json");
        if std::env::var_os("WAVELANE_SCHEMA").is_some_and(|word| word == "write") {
            std::fs::write(&file, &text).unwrap();
        }
        assert!(text == std::fs::read_to_string(&file).unwrap(), "the types and {} differ", file.display());
    }
}
