//! Which files are remarked upon.

use crate::Scenario;
use std::path::Path;

/// A chain of three gateways with an upload across it; `more` is what the file says besides.
fn chain(stacks: &str, air: &str, more: &str) -> Vec<String> {
    let text = format!(
        "duration = \"10 s\"\nstacks = [{stacks}]\n\
         nodes = {{ client = \"endpoint\", a = \"gateway\", b = \"gateway\", c = \"gateway\", server = \"endpoint\" }}\n\
         [channels]\nup = {{ preset = \"ethernet\", between = [\"client\", \"a\"] }}\n{air}\n\
         far = {{ preset = \"ethernet\", between = [\"c\", \"server\"] }}\n\
         [flows]\npage = {{ app = \"upload\", from = \"client\", to = \"server\" }}\n{more}\n"
    );
    let scenario = Scenario::parse(&text, Path::new(".")).expect("sound");
    scenario.remarks().into_iter().map(|remark| format!("{}: {}", remark.clause, remark.why)).collect()
}

const CABLES: &str = "one = { preset = \"ethernet\", between = [\"a\", \"b\"] }\n\
                      two = { preset = \"ethernet\", between = [\"b\", \"c\"] }";
const RADIO: &str = "air = { kind = \"wifi\", nodes = [\"a\", \"b\", \"c\"], phy = \"802.11b\", preamble = \"short\", \
                     rate = \"11 Mbit/s\", rules = \"standard\", edca = \"standard\", reach = \"none\", \
                     pairs = [{ between = [\"a\", \"b\"], hear = \"decode\" }, { between = [\"b\", \"c\"], hear = \"decode\" }] }";

const SEAL: &str = "seal = \"end-to-end\"";

#[test]
fn settings_that_work_are_not_remarked_upon() {
    let all = format!(
        "[gateways.a]\n{SEAL}\nwithhold = 1\nradio = \"raw\"\noverhear = true\n\
         [gateways.b]\nwithhold = 1\nradio = \"raw\"\noverhear = true\nbackpressure = \"limit-1\"\ncorruption = \"1/100\"\nblock-loss = \"1/10\"\n\
         [gateways.c]\n{SEAL}\nwithhold = 1\nradio = \"raw\"\noverhear = true"
    );
    assert_eq!(chain("\"wavelane\"", RADIO, &all), [""; 0]);
    let of_2009 = format!("[gateways.a]\n{SEAL}\noverhear = true\n[gateways.c]\n{SEAL}\noverhear = true");
    assert_eq!(chain("\"hop-2009\"", RADIO, &of_2009), [""; 0]);
}

#[test]
fn what_one_end_alone_does_is_remarked_upon() {
    let said = |more: &str| chain("\"wavelane\"", CABLES, more);
    let one = said(&format!("[gateways.a]\n{SEAL}"));
    assert!(one.len() == 1 && one[0].starts_with("gateways.a.seal: 'c', where the flow page leaves"), "{one:?}");
    let relay = said(&format!("[gateways.a]\n{SEAL}\n[gateways.b]\n{SEAL}\n[gateways.c]\n{SEAL}"));
    assert!(relay.len() == 1 && relay[0].starts_with("gateways.b.seal: no flow across relays begins"), "{relay:?}");
    let one = said("[gateways.b]\nwithhold = 1\n[gateways.a]\nwithhold = 1");
    assert!(one.len() == 1 && one[0].starts_with("gateways.b.withhold: 'c' beside it does not withhold"), "{one:?}");
}

#[test]
fn what_is_set_where_it_cannot_work_is_remarked_upon() {
    let said = |air: &str, more: &str| chain("\"wavelane\"", air, more).join("\n");
    let edge = said(CABLES, "[gateways.a]\nbackpressure = \"off\"\ncorruption = \"1/100\"\nradio = \"raw\"");
    for clause in ["gateways.a.backpressure: ", "gateways.a.corruption: ", "gateways.a.radio: no radio cell"] {
        assert!(edge.contains(clause), "{edge}");
    }
    let on_cables = said(CABLES, "[gateways.a]\noverhear = true");
    assert!(on_cables.starts_with("gateways.a.overhear: it has no effect, for no radio cell"), "{on_cables}");
    let plain = said(RADIO, "[gateways.a]\noverhear = true\nradio = \"plain\"");
    assert!(plain.contains("radio = \"plain\" hands nothing up"), "{plain}");
    let open = said(RADIO, "[gateways.a]\noverhear = true");
    assert!(open.contains("both have seal = \"end-to-end\""), "{open}");
    let idle = chain("\"tcp-bbr\"", CABLES, "[gateways.a]\nwithhold = 1").join("\n");
    assert!(idle.starts_with("gateways.a: none of `stacks` has gateways at work"), "{idle}");
}

#[test]
fn an_outage_after_the_end_is_remarked_upon() {
    let outage = |at: &str| {
        let air = format!(
            "one = {{ between = [\"a\", \"b\"], forward = {{ outages = [{{ at = \"{at}\", for = \"1 s\" }}] }}, reverse = \"same\" }}\n\
             two = {{ preset = \"ethernet\", between = [\"b\", \"c\"] }}"
        );
        chain("\"wavelane\"", &air, "")
    };
    assert_eq!(outage("9 s"), [""; 0]);
    let late = outage("10 s");
    assert!(late.len() == 1 && late[0].starts_with("channels.one.forward.outages: an outage at 10 s"), "{late:?}");
    let of_pair = |at: &str| {
        let lost = format!("hear = \"decode\", outages = [{{ at = \"{at}\", for = \"1 s\" }}] }}]");
        chain("\"wavelane\"", &RADIO.replace("hear = \"decode\" }]", &lost), "")
    };
    assert_eq!(of_pair("9 s"), [""; 0]);
    let late = of_pair("10 s");
    let said = "channels.air.pairs: an outage at 10 s of the pair b, c comes after the run's end at 10 s";
    assert!(late.len() == 1 && late[0].starts_with(said), "{late:?}");
}

#[test]
fn a_recording_that_is_over_before_the_run_is_remarked_upon() {
    let folder = std::env::temp_dir().join(format!("wavelane-remarks-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let recorded = |seconds: u32, then: &str| {
        let file = folder.join(format!("{seconds}.csv"));
        let rows: String = (0..seconds).map(|at| format!("{at},5\n")).collect();
        std::fs::write(&file, format!("seconds,Mbit/s\n{rows}")).expect("a file");
        let file = file.display();
        let air = format!(
            "one = {{ between = [\"a\", \"b\"], forward = {{ rate = {{ file = \"{file}\", format = \"csv\"{then} }} }}, reverse = \"same\" }}\n\
             two = {{ preset = \"ethernet\", between = [\"b\", \"c\"] }}"
        );
        chain("\"wavelane\"", &air, "")
    };
    assert_eq!(recorded(10, ""), [""; 0]);
    let begins = "channels.one.forward.rate: the recording lasts 4 s of the run's 10 s and then ";
    for (then, says) in [("", "begins again"), (", then = \"end\"", "lets nothing pass any more")] {
        let short = recorded(4, then);
        assert!(short.len() == 1 && short[0].starts_with(&format!("{begins}{says}")), "{short:?}");
    }
    std::fs::remove_dir_all(&folder).expect("removed");
}
