//! What the tests of refused files share.

use crate::Scenario;
use std::path::Path;

/// A text as a file without a folder; the message if it is refused.
pub(crate) fn parse(text: &str) -> Result<Scenario, String> {
    Scenario::parse(text, Path::new(".")).map_err(|e| e.to_string())
}

/// Damages `good` by each entry (what it says, what is written instead, the message) and compares the messages, each
/// one line. A message that ends in "..." stands for all that begin like it.
pub(crate) fn refused(good: &str, damage: &[(&str, &str, &str)]) {
    let mut wrong = Vec::new();
    for (from, to, message) in damage {
        assert!(good.contains(from), "{from}");
        let got = match parse(&good.replacen(from, to, 1)) {
            Ok(_) => "accepted".into(),
            Err(message) => message,
        };
        assert!(!got.contains('\n'), "{got}");
        let as_said = match message.strip_suffix("...") {
            Some(head) => got.starts_with(head),
            None => got == *message,
        };
        if !as_said {
            wrong.push(format!("{to}\n  got  {got}\n  want {message}"));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
