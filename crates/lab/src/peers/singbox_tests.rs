#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
use super::*;
use std::path::Path;

/// A link of 20 Mbit/s from a to b and of `back` from b to a; `from` downloads from `to`.
fn scenario(back: &str, from: &str, to: &str) -> Scenario {
    let text = format!(
        r#"
title = "t"
duration = "1 s"
stacks = ["hysteria2-brutal"]
nodes = {{ c = "endpoint", a = "gateway", b = "gateway", s = "endpoint" }}
[channels.lan]
preset = "ethernet"
between = ["c", "a"]
[channels.air]
kind = "cable"
between = ["a", "b"]
forward = {{ rate = "20 Mbit/s", delay = "10 ms" }}
reverse = {{ {back} delay = "10 ms" }}
[channels.far]
preset = "ethernet"
between = ["b", "s"]
[flows.page]
app = "download"
from = "{from}"
to = "{to}"
"#
    );
    Scenario::parse(&text, Path::new(".")).unwrap()
}

fn reviewed(scenario: &Scenario) -> Result<(), String> {
    review_rates(scenario, [1, 2], &scenario.channels[1])
}

#[test]
fn brutal_gets_nine_tenths_of_each_rate_in_whole_mbit() {
    let asymmetric = scenario("rate = \"1500 kbit/s\",", "c", "s");
    let air = &asymmetric.channels[1];
    assert_eq!(directions(air, "a").map(|d| told(air, d)), [Some(18), Some(1)]);
    assert_eq!(directions(air, "b").map(|d| told(air, d)), [Some(1), Some(18)]);
}

#[test]
fn brutal_is_refused_where_its_rate_cannot_be_configured() {
    assert_eq!(reviewed(&scenario("rate = \"1500 kbit/s\",", "c", "s")), Ok(()));
    for back in ["rate = \"33.6 kbit/s\",", ""] {
        let why = reviewed(&scenario(back, "c", "s")).unwrap_err();
        assert!(why.contains("channel air") && why.contains("towards a") && why.contains("hysteria2-bbr"), "{why}");
        // From the other side, bytes to the client go the way that has a rate.
        assert_eq!(reviewed(&scenario(back, "s", "c")), Ok(()));
    }
}

#[test]
fn both_ends_configure_each_protocol_alike() {
    let outside = SocketAddr::from(([10, 77, 1, 2], 31_000));
    for tunnel in [Tunnel::Hysteria2Brutal, Tunnel::Hysteria2Bbr, Tunnel::TuicBbr] {
        let server = server_file(tunnel, outside, json!({}))["inbounds"][0].clone();
        let client = client_file(tunnel, vec![], outside, json!({}), [None, Some(18)])["outbounds"][0].clone();
        assert_eq!(server["type"], client["type"]);
        assert_eq!(server["users"][0]["password"], client["password"]);
        assert_eq!(server["users"][0].get("uuid"), client.get("uuid"));
        assert_eq!(server.get("congestion_control"), client.get("congestion_control"));
        assert_eq!(server["listen_port"], client["server_port"]);
        // A rate makes it Brutal, and an unknown one is not a rate of nought.
        let told = (tunnel == Tunnel::Hysteria2Brutal).then(|| json!(18));
        assert_eq!((client.get("up_mbps"), client.get("down_mbps")), (None, told.as_ref()));
    }
}

#[test]
fn a_key_and_a_certificate_are_told_apart() {
    let key = "-----BEGIN PRIVATE KEY-----\nab\n-----END PRIVATE KEY-----\n\n";
    let certificate = "-----BEGIN CERTIFICATE-----\ncd\n-----END CERTIFICATE-----\n";
    assert_eq!(halves(&format!("{key}{certificate}")), Some((key, certificate)));
    assert_eq!(halves(certificate), None);
    assert_eq!(halves("FATAL no"), None);
}
