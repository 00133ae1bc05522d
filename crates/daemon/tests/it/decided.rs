//! What a gateway decided between kernels is recorded, and replayed without one.

use crate::common::*;

#[test]
fn what_a_real_run_decided_is_replayed() {
    let _alone = alone();
    if !root_or_skip("decided") {
        return;
    }
    let world = World::new("decided");
    world.serve(7, echo);
    let recording = world.dir.join("decisions");
    let config = world.write(
        "a",
        Outside::V4,
        "source = \"keep\"\non_failure = \"open\"",
        "[intercept]\ninterfaces = [\"lan0\"]",
    );
    let mut b = world.start("b", "source = \"keep\"", "");
    let mut a = world.spawn_with("a", &config, &["--decisions", recording.to_str().unwrap()]);
    a.wait_log("peer 'b' is up");
    // The peer goes, which a SYN meets, and comes back.
    b.kill();
    says(&mut world.connect(&world.client, "10.3.0.2:7").unwrap()).unwrap();
    wait_for("its networks to be given back", || a.status().peers[0].given_back);
    let _b = world.start("b", "source = \"keep\"", "");
    wait_for("the peer to have them again", || a.status().peers[0].up && !a.status().peers[0].given_back);
    // A configuration that is taken, and one that is not; and what another program takes away.
    edit(&config, "10.3.0.0/24", "10.3.0.0/25");
    assert_eq!(a.reload(), None);
    edit(&config, "name = \"a\"", "name = \"ship\"");
    assert!(a.reload().is_some());
    let before = a.counter("state_put_back");
    world.sh(&world.a, "ip route flush table 4780");
    wait_for("our routes to be put back", || a.counter("state_put_back") > before);
    assert_eq!(a.stop(), Some(0));
    let recorded = std::fs::read_to_string(&recording).unwrap();
    for what in [
        "start open b@",
        " down b\n    say warning: peer 'b' is down",
        "    give back [b]\n",
        " kernel Down ok\n",
        " up b\n    give back []\n",
        "=10.3.0.0/25+fd00:3::/64\n    lead open b@",
        " in force as the file has it",
        " checked refused: gateway.name cannot change",
        " kernel Back(Routes) ok\n    count state_put_back\n",
    ] {
        assert!(recorded.contains(what), "{what} in\n{recorded}");
    }
    let replayed = wavelane_daemon::replay_decisions(&recorded).unwrap();
    assert!(replayed == recorded, "recorded:\n{recorded}\nreplayed:\n{replayed}");
}
