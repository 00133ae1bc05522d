//! Replays `fuzz/corpus/config`.

use wavelane_daemon::config::Config;

#[path = "../../../../fuzz/shared/replay.rs"]
mod replay;

#[test]
fn texts_replay() {
    replay::texts("config", |text, folder| Config::parse(text, "corpus", folder).err());
}
