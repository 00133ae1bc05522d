//! `wavelane check FILE --with PEER`: this file, and what the peer's running gateway is configured for.

use super::CommandError;
use super::ask::Asking;
use crate::about::{About, Compared, compare};
use crate::config::Config;
use crate::request::{Answer, Ask};
use std::path::Path;
use std::time::Duration;
use wavelane_host::clock::wall_nanos;

/// The daemon gives a peer up sooner.
const PATIENCE: Duration = Duration::from_secs(20);

/// Has the running gateway ask its peer, and compares. `control` names its socket; by default the file does.
pub fn check_with(file: &Path, peer: &str, control: Option<&Path>) -> Result<Compared, CommandError> {
    if crate::proxy::is_proxy_file(file) {
        let why = format!("{}: a proxy has no peers: --with is for a gateway's configuration", file.display());
        return Err(CommandError::Refused(why));
    }
    let config = Config::load(file)?;
    let Some(towards) = config.peers.iter().find(|p| p.name == peer) else {
        let names: Vec<&str> = config.peers.iter().map(|p| p.name.as_str()).collect();
        return Err(CommandError::NoPeer { name: peer.into(), names: names.join(", ") });
    };
    let mut asking = Asking::begin(Some(control.unwrap_or(&config.control)))?;
    let asked = wall_nanos();
    asking.ask(&Ask::About { peer: peer.into() })?;
    match asking.hear(PATIENCE)? {
        Some(Answer::About(theirs)) => {
            let spread = wall_nanos().saturating_sub(asked) as f64 / 1e9;
            Ok(compare(&About::of(&config, towards, wall_nanos()), &theirs, spread))
        }
        Some(Answer::Refused(why)) => Err(CommandError::Refused(why)),
        Some(_) => Err(asking.strange_answer()),
        None => Err(CommandError::Refused(format!("peer '{peer}' has not answered: see `wavelane netcheck`"))),
    }
}
