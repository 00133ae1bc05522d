//! Every declared setting is read, written and refused by its declaration.

use crate::{
    EDGE, FORWARD, File, GATEWAY, GATEWAY_TABLE, GatewayKnobs, Group, INTERCEPT, LANE, LINK, Lines, PEER, PROXY,
    SERIAL, SHAPER, SHAPERS, SIDE, SIDE_TABLE, TCP, TUN, TUNNEL, Table, TcpKnobs,
};
use toml::de::DeTable;

fn read<S: Clone + Default>(group: &Group<S>, file: File, text: &str) -> Result<S, String> {
    let document = DeTable::parse(text).expect("TOML");
    group.read(file, &Table::at(&Lines::of(text), "t", document.get_ref())).map_err(|error| error.to_string())
}

/// Values of any kind: each setting has some that it takes.
const TRIED: &[&str] = &[
    "true",
    "1",
    "7",
    "\"1 MB\"",
    "\"1 GB\"",
    "\"1000 B\"",
    "\"2 s\"",
    "\"33.6 kbit/s\"",
    "\"1/20\"",
    "\"off\"",
    "\"hop-2009\"",
    "\"raw\"",
    "\"1998\"",
    "\"stack\"",
    "\"bond\"",
    "\"open\"",
    "\"own\"",
    "\"debug\"",
    "\"all\"",
    "\"kernel\"",
    "\"out\"",
    "\"up\"",
    "\"atm\"",
    "\"tbf\"",
    "\"30 ms\"",
    "1280",
    "[\"a\", \"a\"]",
    "[]",
];

fn each_reads_back<S: Clone + Default + PartialEq + core::fmt::Debug>(group: &Group<S>) {
    for file in [File::Scenario, File::Daemon] {
        for knob in group.in_file(file) {
            let key = knob.key(file);
            let taken: Vec<S> =
                TRIED.iter().filter_map(|value| read(group, file, &format!("{key} = {value}")).ok()).collect();
            assert!(!taken.is_empty(), "{key} takes nothing");
            for settings in taken {
                let text = group.write(file, &settings);
                assert!(text.lines().any(|line| line.starts_with(&format!("{key} = "))), "{text}");
                assert_eq!(read(group, file, &text).as_ref(), Ok(&settings), "{text}");
                assert_eq!(group.check(&settings), Ok(()));
            }
            let refused =
                read(group, file, &format!("\n{key} = [1979-05-27]")).expect_err("no setting is a list of days");
            assert!(refused.starts_with(&format!("2: t.{key}")), "{refused}");
        }
    }
}

#[test]
fn every_setting_reads_back_what_it_writes() {
    each_reads_back(&GATEWAY);
    each_reads_back(&GATEWAY_TABLE);
    each_reads_back(&TCP);
    each_reads_back(&LANE);
    each_reads_back(&PEER);
    each_reads_back(&EDGE);
    each_reads_back(&INTERCEPT);
    each_reads_back(&TUN);
    each_reads_back(&FORWARD);
    each_reads_back(&SERIAL);
    each_reads_back(&PROXY);
    each_reads_back(&SIDE_TABLE);
    each_reads_back(&TUNNEL);
    each_reads_back(&SHAPER);
    each_reads_back(&SHAPERS);
}

#[test]
fn names_are_unique_and_said_in_a_sentence() {
    fn check<S>(group: &Group<S>) {
        for (place, knob) in group.0.iter().enumerate() {
            assert!(group.0[..place].iter().all(|other| other.name != knob.name), "{} stands twice", knob.name);
            assert!(!knob.says.is_empty() && !knob.says.contains('|') && !knob.says.contains('\n'), "{}", knob.name);
        }
    }
    check(&GATEWAY);
    check(&GATEWAY_TABLE);
    check(&TCP);
    check(&LINK);
    check(&crate::MOBILITY);
    check(&LANE);
    check(&PEER);
    check(&EDGE);
    check(&INTERCEPT);
    check(&TUN);
    check(&FORWARD);
    check(&SERIAL);
    check(&PROXY);
    check(&SIDE);
    check(&SIDE_TABLE);
    check(&TUNNEL);
    check(&SHAPER);
    check(&SHAPERS);
}

#[test]
fn bounds_hold_wherever_a_value_comes_from() {
    let refused = |text: &str| read(&GATEWAY, File::Daemon, text).expect_err(text);
    assert_eq!(refused("block = \"1 kB\""), "1: t.block = 1 kB must lie between 4 KiB and 64 MiB");
    assert_eq!(refused("cache = \"1 kB\""), "1: t.cache = 1 kB must be 0 B, or lie between 128 KiB and 64 GiB");
    assert_eq!(refused("withhold = 256"), "1: t.withhold = 256 must be 0, or lie between 1 and 255");
    assert_eq!(refused("idle = \"1 ms\""), "1: t.idle = 1 ms must lie between 1 s and 3600000 s");
    assert_eq!(refused("rounds = 1"), "1: t.rounds must be true or false, such as true, not 1");
    assert_eq!(refused("seal = \"of\""), "1: unknown seal 'of'; did you mean 'off'?");
    let shaper = read(&SHAPER, File::Daemon, "rate_min = \"1 kbit/s\"").expect_err("slow");
    assert_eq!(shaper, "1: t.rate_min = 1 kbit/s must be at least 8 kbit/s");
    let listen = read(&GATEWAY_TABLE, File::Daemon, "listen = 4780").expect_err("no text");
    assert_eq!(listen, "1: t.listen must be a text in quotes, such as \"address:port\", not 4780");
    let hints = [
        ("tries = 1998", "must be a text in quotes, such as \"1998\", not 1998"),
        ("seal = 99", "must be a text in quotes, such as \"off\", not 99"),
        ("mtu_max = \"x\"", "must be a whole number from 0, such as 1280, not a text"),
        ("mtu_max = \"7 B\"", "such as 1280"),
        ("mtu_max = \"1400 B\"", "such as 1400"),
    ];
    for (text, hint) in hints {
        assert!(refused(text).contains(hint), "{}", refused(text));
    }
    let peer = |text: &str| read(&PEER, File::Daemon, text).expect_err(text);
    for (text, hint) in [("zzz zzz", "such as [\"10.1.0.0/16\"]"), ("10.7.0.0/24", "such as [\"10.7.0.0/24\"]")] {
        assert!(peer(&format!("allow_targets = \"{text}\"")).contains(hint), "{text}");
    }
    let machine = GatewayKnobs { flows_max: Some(0), ..GatewayKnobs::default() };
    let said = GATEWAY.check(&machine).expect_err("no flows").to_string();
    assert_eq!(said, "flows_max = 0 must lie between 1 and 1048576");
}

#[test]
fn files_spell_keys_their_own_way() {
    assert!(read(&GATEWAY, File::Scenario, "micro-blocks = false").is_ok_and(|read| read.micro_blocks == Some(false)));
    assert!(read(&GATEWAY, File::Daemon, "micro_blocks = false").is_ok_and(|read| read.micro_blocks == Some(false)));
    let knobs = GatewayKnobs { rounds: Some(true), overhear: Some(true), idle: None, ..GatewayKnobs::default() };
    assert_eq!(GATEWAY.write(File::Daemon, &knobs), "rounds = true\n", "wavelaned cannot overhear");
    let tcp = TcpKnobs { sack: Some(false), ..TcpKnobs::default() };
    assert_eq!(TCP.write(File::Scenario, &tcp), "sack = false\n");
}

#[test]
fn a_table_has_what_it_needs_and_nothing_else() {
    let whole = |text: &str| {
        let document = DeTable::parse(text).expect("TOML");
        let lines = Lines::of(text);
        let root = Table::root(&lines, document.get_ref());
        FORWARD.each(&root, "forward").map(|all| all.len()).map_err(|error| error.to_string())
    };
    let forward = "[[forward]]\nlisten = \"127.0.0.1:1\"\nto = \"10.0.3.1:80\"\n";
    assert_eq!(whole(&format!("{forward}via = \"b\"\n")), Ok(1));
    assert_eq!(whole(forward), Err("1: [forward] lacks 'via': add via = \"shore\"".into()));
    assert_eq!(
        whole(&format!("\n{forward}vai = \"b\"")),
        Err("5: unknown key 'vai' in [forward]; did you mean 'via'?".into())
    );
}

/// A file of the largest size with as many tables as fit: a value's line is searched for, not counted from the start, which took minutes.
#[test]
fn the_line_of_a_value_is_told_without_a_count_from_the_start() {
    let text = "a\n\nbc\r\nd";
    let lines = Lines::of(text);
    let counted = |offset: usize| text.bytes().take(offset).filter(|octet| *octet == b'\n').count() + 1;
    for offset in 0..text.len() + 3 {
        assert_eq!(lines.at(offset), counted(offset), "{offset}");
    }
    const TABLES: usize = 49_000;
    let text =
        "[[forward]]\nlisten = \"127.0.0.1:1\"\nto = \"10.0.3.1:80\"\nvia = \"b\"\n".repeat(TABLES) + "vai = 1\n";
    let document = DeTable::parse(&text).expect("TOML");
    let lines = Lines::of(&text);
    let read = FORWARD.each(&Table::root(&lines, document.get_ref()), "forward").map(|all| all.len());
    let wanted = format!("{}: unknown key 'vai' in [forward]; did you mean 'via'?", 4 * TABLES + 1);
    assert_eq!(read.map_err(|error| error.to_string()), Err(wanted));
}
