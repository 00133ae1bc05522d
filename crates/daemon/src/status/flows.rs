//! The part of `status` about connections: whose they are, how old, in what state, and the memory they share.

use super::{Report, Way};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Connections listed in a document, which must fit the buffer of the control socket: nobody waits for its reader.
pub const FLOWS_SHOWN: usize = 200;
/// Connections that are shown to people.
const FLOWS_PRINTED: usize = 20;

/// One connection that crosses the door now.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FlowReport {
    /// The peer it crosses to or from.
    pub peer: String,
    /// The gateways that it crosses, as far as they are known.
    #[serde(default)]
    pub way: Option<Way>,
    /// The application's address.
    pub source: String,
    /// The server's.
    pub target: String,
    /// `connecting` to the server, `waiting` for the far one, `open`, `ended here` or `ended there` (one direction), `closing`.
    pub state: String,
    /// Seconds since it began.
    pub age_s: f64,
    /// Seconds since it left its earlier stage: connecting, waiting or open.
    pub state_s: f64,
    /// Bytes read from the socket here, which go to the peer: `sent`.
    pub in_bytes: u64,
    /// Bytes written to the socket here, which came from the peer: `received`.
    pub out_bytes: u64,
}

impl Report {
    /// The connections that moved most, and how full the pool is.
    pub(super) fn flows(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.flow_list.iter().take(FLOWS_PRINTED) {
            let (state, for_s) = (&c.state, age(c.state_s));
            let old = age(c.age_s);
            let by = c.way.as_ref().map_or_else(|| c.peer.clone(), ToString::to_string);
            writeln!(
                f,
                "  {} to {} by {by}: {state}, {old} old, in its state for {for_s}, {} B received, {} B sent",
                c.source, c.target, c.out_bytes, c.in_bytes
            )?;
        }
        match self.door.connections.saturating_sub(FLOWS_PRINTED.min(self.flow_list.len())) {
            0 => {}
            more => writeln!(f, "  and {more} more (--json shows up to {FLOWS_SHOWN})")?,
        }
        let exhausted = self.pool_bytes > 0 && self.buffered_bytes >= self.pool_bytes - self.pool_bytes / 16;
        let remark = if exhausted { ": pool exhausted, connections wait for room (raise `pool`)" } else { "" };
        writeln!(f, "buffered {} of {} B{remark}", self.buffered_bytes, self.pool_bytes)
    }
}

/// A span of time as people say it.
pub(crate) fn age(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7_200.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.0} h", s / 3_600.0),
        s => format!("{:.0} d", s / 86_400.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_have_age_and_state_and_an_exhausted_pool_is_named() {
        let flow = FlowReport {
            peer: "shore".into(),
            way: None,
            source: "10.1.0.2:40000".into(),
            target: "10.3.0.2:80".into(),
            state: "ended there".into(),
            age_s: 7_500.0,
            state_s: 90.0,
            in_bytes: 5,
            out_bytes: 7,
        };
        let mut report =
            Report { flow_list: vec![flow.clone(); 30], buffered_bytes: 900, pool_bytes: 1_000, ..Report::default() };
        report.door.connections = 300;
        let text = report.to_string();
        let line = "10.1.0.2:40000 to 10.3.0.2:80 by shore: ended there, 2 h old, in its state for 90 s, 7 B received, 5 B sent";
        assert_eq!(text.matches(line).count(), FLOWS_PRINTED, "{text}");
        assert!(text.contains("and 280 more") && text.contains("buffered 900 of 1000 B\n"), "{text}");
        let way = Some(Way { first: "shore".into(), relays: Some(1), far: Some("town".into()) });
        report.flow_list = vec![FlowReport { way, ..flow }];
        assert!(report.to_string().contains("10.3.0.2:80 by shore, town: ended there"), "{report}");
        report.buffered_bytes = 940;
        assert!(report.to_string().contains("buffered 940 of 1000 B: pool exhausted"), "{report}");
    }
}
