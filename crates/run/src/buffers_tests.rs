#![allow(clippy::unwrap_used, reason = "tests")]
use super::*;
use std::path::Path;

const BDP: usize = 20_000_000 / 8 / 10;

/// 20 Mbit/s and 100 ms behind cables of 1 Gbit/s, with `air` and `timeline` as they are given.
fn scenario(air: &str, timeline: &str) -> Scenario {
    let text = format!(
        r#"
title = "t"
seed = 1
duration = "30 s"
stacks = ["tcp-cubic"]
[nodes]
client = "endpoint"
a = "gateway"
server = "endpoint"
[channels.lan]
kind = "cable"
between = ["client", "a"]
forward = {{ rate = "1 Gbit/s", queue = "9 MB" }}
reverse = "same"
[channels.air]
kind = "cable"
between = ["a", "server"]
forward = {{ rate = "2 Mbit/s", delay = "50 ms", queue = "1 kB" }}
reverse = {{ rate = "20 Mbit/s", delay = "50 ms", {air} }}
[flows.page]
app = "download"
from = "client"
to = "server"
{timeline}"#
    );
    Scenario::parse(&text, Path::new(".")).unwrap()
}

fn over(air: &str, timeline: &str) -> usize {
    needed(&scenario(air, timeline))
}

#[test]
fn a_paths_product_is_without_its_queue() {
    assert_eq!(product(&scenario("queue = \"250 kB\"", "")), BDP as u64);
}

#[test]
fn tcp_buffers_are_twice_path_and_queue() {
    assert_eq!(over("queue = \"250 kB\"", ""), 2 * (BDP + 250_000));
    assert_eq!(over("queue = \"100 packets\"", ""), 2 * (BDP + 150_000));
    // Its length is not stated.
    assert_eq!(over("jitter = \"100 ms\"", ""), 4 * BDP);
}

#[test]
fn the_timeline_counts_at_its_widest() {
    let step = |at: &str, what: &str, to: &str| {
        format!("[[timeline]]\nat = \"{at}\"\nset = \"air.reverse.{what}\"\nto = \"{to}\"\n")
    };
    let fast = step("9 s", "rate", "40 Mbit/s") + &step("3 s", "delay", "150 ms");
    assert_eq!(over("queue = \"250 kB\"", &fast), 2 * (4 * BDP + 250_000));
    // At the slower rate it is still the bottleneck with its queue.
    let slow = step("3 s", "rate", "1 Mbit/s") + &step("5 s", "queue", "1 MB");
    assert_eq!(over("queue = \"250 kB\"", &slow), 2 * (BDP + 1_000_000));
    assert_eq!(over("queue = \"200 MB\"", &step("1 s", "rate", "1 Gbit/s")), 2 * (50 * BDP + 209_000_000));
}
