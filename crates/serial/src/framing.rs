//! Which framing a line has, as a word in files.

use core::fmt;
use core::str::FromStr;
use thiserror::Error;

/// How packets are told apart on a line.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Framing {
    /// END doubled in the data, as the asymmetric network of 1998 did.
    Slip1998,
    /// RFC 1055.
    Slip,
    /// RFC 1055 with TCP/IP headers compressed (RFC 1144).
    Cslip,
    /// PPP in HDLC-like framing (RFC 1662).
    Ppp,
    /// KISS, to a packet-radio modem.
    Kiss,
}

impl Framing {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Slip1998, Self::Slip, Self::Cslip, Self::Ppp, Self::Kiss];

    /// Its word in files and reports.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Slip1998 => "slip-1998",
            Self::Slip => "slip",
            Self::Cslip => "cslip",
            Self::Ppp => "ppp",
            Self::Kiss => "kiss",
        }
    }
}

impl fmt::Display for Framing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A word that names no framing.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("no framing is called `{0}`: use slip-1998, slip, cslip, ppp or kiss")]
pub struct FramingError(String);

impl FromStr for Framing {
    type Err = FramingError;
    fn from_str(word: &str) -> Result<Self, FramingError> {
        let found = Self::ALL.into_iter().find(|framing| framing.word() == word);
        found.ok_or_else(|| FramingError(wavelane_base::text::line(word, 40).into_owned()))
    }
}
