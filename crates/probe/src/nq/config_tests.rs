#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
use super::config::*;

fn document(small: &str, large: &str, upload: &str) -> Vec<u8> {
    format!(
        r#"{{"version": 1, "urls": {{"small_download_url": "{small}", "large_download_url": "{large}", "upload_url": "{upload}"}},
           "test_endpoint": "a.example", "more": [1]}}"#
    )
    .into_bytes()
}

fn refusal(document: &[u8]) -> String {
    Config::parse(document).unwrap_err().to_string()
}

#[test]
fn the_drafts_names_and_those_before_it_are_read() {
    let config = Config::parse(&document("https://a.example/s", "https://A.example:443/l", "https://a.example/u?x=1"));
    assert_eq!(config.unwrap().upload.path(), "/u");
    let old = br#"{"version": 1, "urls": {"small_https_download_url": "https://a.example/s",
        "large_https_download_url": "https://a.example/l", "https_upload_url": "https://a.example/u"}}"#;
    assert_eq!(Config::parse(old).unwrap().large.path(), "/l");
}

#[test]
fn a_web_page_is_told_from_a_broken_document() {
    assert_eq!(Config::parse(b" \n<html><title>Sign in"), Err(ConfigError::WebPage));
    assert!(refusal(b"{\"version\": 1").contains("cannot be read"));
    assert!(refusal(b"").contains("cannot be read"));
}

#[test]
fn only_version_one_with_all_three_urls_counts() {
    assert!(refusal(br#"{"version": 2, "urls": {}}"#).contains("version 2"));
    assert!(refusal(br#"{"version": 1, "urls": {}}"#).contains("no small_download_url"));
    assert!(refusal(br#"{"version": 1, "version": 1, "urls": {}}"#).contains("duplicate"));
}

#[test]
fn urls_are_of_the_web_and_of_one_server() {
    let (a, b) = ("https://a.example/x", "https://b.example/x");
    for bad in
        ["file:///etc/passwd", "ftp://a.example/x", "/x", "https:///x", "https://u:p@a.example/x", "gopher:x", ""]
    {
        let why = refusal(&document(bad, a, a));
        assert!(why.contains("small_download_url") && why.contains("only http and https"), "{bad}: {why}");
    }
    assert!(refusal(&document(a, a, b)).contains("b.example"));
    assert!(refusal(&document(a, "http://a.example/x", a)).contains("different servers"), "another port");
    let long = format!("https://a.example/{}\u{1b}[2J", "x".repeat(5_000));
    assert!(refusal(&document("x:", &long, a)).len() < 400);
    assert_eq!(quoted("a\u{1b}[2J\u{9b}1m\u{202e}b"), "a?[2J?1m?b");
    assert!(refusal(&document(a, "https://a.example/\u{9b}2J", a)).contains("large_download_url"), "C1 is not ASCII");
}

#[test]
fn a_host_stands_for_its_document() {
    let at = |given: &str| config_url(given).unwrap().to_string();
    assert_eq!(at("a.example"), "https://a.example/.well-known/nq");
    assert_eq!(at("http://[2001:db8::1]:4783"), "http://[2001:db8::1]:4783/.well-known/nq");
    assert_eq!(at("https://a.example/api/nq"), "https://a.example/api/nq");
    for bad in ["", "file:///x", "http://", "https://u@a.example", "a b"] {
        assert!(config_url(bad).unwrap_err().to_string().contains("write https://HOST"), "{bad}");
    }
}

#[test]
fn a_public_server_may_not_lead_into_a_private_network() {
    let ip = |text: &str| text.parse().unwrap();
    assert!(outward(ip("203.0.113.1"), ip("192.168.1.1")).unwrap_err().to_string().contains("private network"));
    assert!(outward(ip("2001:db8::1"), ip("::ffff:127.0.0.1")).is_err());
    assert!(outward(ip("192.168.1.2"), ip("192.168.1.1")).is_ok());
    assert!(outward(ip("203.0.113.1"), ip("198.51.100.7")).is_ok());
    for private in [
        "0.1.2.3",
        "100.64.0.1",
        "100.127.255.255",
        "64:ff9b::10.0.0.1",
        "64:ff9b::169.254.1.1",
        "64:ff9b:1::1",
        "2002:c0a8:101::1",
        "2001:0:5ef5:79fb::3f57:fefe",
        "::127.0.0.1",
        "fe80::1",
        "fd00::1",
    ] {
        assert!(outward(ip("203.0.113.1"), ip(private)).is_err(), "{private}");
    }
    for public in
        ["100.63.0.1", "100.128.0.1", "64:ff9b::8.8.8.8", "2002:808:808::1", "2001:db8::7", "2001:0:1::f7f7:f7f7"]
    {
        assert!(outward(ip("203.0.113.1"), ip(public)).is_ok(), "{public}");
    }
}

proptest::proptest! {
    #[test]
    fn no_document_makes_it_panic(octets: Vec<u8>) {
        let _ = Config::parse(&octets);
    }
}
