//! Two gateways with packet doors, and the system's programs that look at them.

use super::*;

/// Each gateway's table, with the address of its device.
pub fn tun(name: &str, more: &str) -> String {
    let n = if name == "a" { 1 } else { 2 };
    format!(
        "[intercept]\ninterfaces = [\"lan0\"]\n[tun]\naddresses = [\"10.9.0.{n}/24\", \"fd00:9::{n}/64\"]\n{more}\n"
    )
}

/// Both gateways with packet doors; `peer` goes into their `[[peer]]` tables, `more` into `[tun]`.
pub fn start(world: &World, peer: &str, more: &str) -> (Daemon, Daemon) {
    let b = world.start("b", "source = \"keep\"", &format!("{peer}\n{}", tun("b", more)));
    let a = world.start("a", "source = \"keep\"", &format!("{peer}\n{}", tun("a", more)));
    a.wait_log("peer 'b' is up");
    b.wait_log("peer 'a' is up");
    (a, b)
}

/// Nothing crosses but our own datagrams, and `percent` of those are lost in each direction.
pub fn only_the_lane(world: &World, percent: u32) {
    for ns in [&world.a, &world.b] {
        world.sh(
            ns,
            &format!(
                "nft 'table inet world {{ \
                 chain i {{ type filter hook input priority 0; udp dport 4780 numgen random mod 100 < {percent} drop; }}; \
                 chain f {{ type filter hook forward priority 0; iifname \"wan0\" drop; oifname \"wan0\" drop; }}; }}'"
            ),
        );
    }
}

pub fn has(program: &str, test: &str) -> bool {
    let there = Command::new(program).arg("-V").output().is_ok();
    if !there {
        eprintln!("SKIPPED (1 test): {test} needs {program}");
    }
    there
}

/// What ping says, whatever its exit code.
pub fn ping(world: &World, from: &Netns, arguments: &str) -> String {
    world.sh(from, &format!("LC_ALL=C ping {arguments} 2>&1 || true"))
}

pub fn received(said: &str) -> u32 {
    let words = said.split(" received").next().unwrap();
    words.rsplit(' ').next().unwrap().parse().unwrap_or_else(|_| panic!("{said}"))
}
