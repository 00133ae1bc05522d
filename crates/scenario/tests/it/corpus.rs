//! Replays `fuzz/corpus/scenario`.

use wavelane_scenario::Scenario;

#[path = "../../../../fuzz/shared/replay.rs"]
mod replay;

#[test]
fn texts_replay() {
    replay::texts("scenario", |text, folder| Scenario::parse(text, folder).err());
}
