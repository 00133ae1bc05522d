//! What a client may ask by the control socket, and what it is told: a line of JSON each.

use crate::about::About;
use serde::{Deserialize, Serialize};
use wavelane_base::Span;

/// A request. A client that makes none gets the status document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "lowercase", deny_unknown_fields)]
pub(crate) enum Ask {
    /// An echo by each lane to a peer. [`Answer::Echo`] comes once per lane.
    Ping {
        /// The peer's name.
        peer: String,
        /// The client's number for it.
        number: u64,
        /// Milliseconds after which it counts as lost.
        wait_ms: u64,
    },
    /// What a peer is configured for towards this gateway.
    About {
        /// The peer's name.
        peer: String,
    },
    /// Read the configuration again.
    Reload {
        /// Go back by itself after so many milliseconds, unless [`Ask::Keep`] comes.
        confirm_ms: Option<u64>,
    },
    /// Keep the configuration that is on trial.
    Keep,
    /// End the trial now: the configuration before comes back.
    Back,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Answer {
    /// What became of an echo by one lane.
    Echo(EchoAnswer),
    /// What a peer says.
    About(Box<About>),
    /// It was done. Lines for the operator.
    Done(String),
    /// It was not. One line, with the remedy.
    Refused(String),
}

/// What became of an echo.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct EchoAnswer {
    /// The client's number for it.
    pub(crate) number: u64,
    /// How many lanes were asked under that number.
    pub(crate) lanes: usize,
    /// The lane's name.
    pub(crate) lane: String,
    /// Its device, or its own address.
    pub(crate) by: String,
    /// From its leaving to the answer; nothing if none came.
    pub(crate) round_trip_ms: Option<f64>,
    /// Why none came, as far as that is known.
    pub(crate) why: Option<String>,
}

/// How long an echo's answer may be waited for.
pub(crate) const WAIT_MAX: Span = Span::from_secs(600);
/// How long a configuration may be on trial. Less gives nobody the time to confirm it.
pub(crate) const TRIAL_MIN: Span = Span::from_secs(1);
/// Nobody waits longer, and a day later nobody remembers that it will go back.
pub(crate) const TRIAL_MAX: Span = Span::from_secs(24 * 3_600);

impl Answer {
    /// As it is sent.
    pub(crate) fn line(&self) -> String {
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }
}
