//! `wavelane over`: any program over a scenario's link, as a user without privileges.

use crate::common::{Place, WAVELANE, err, out, scenarios, wavelane};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

const PING: &str = r#"
title = "40 pings over a lossy cable"
seed = 1
duration = "3 s"
stacks = ["tcp-cubic"]
[nodes]
client = "endpoint"
server = "endpoint"
[channels.air]
kind = "cable"
between = ["client", "server"]
reverse = "same"
forward = { rate = "10 Mbit/s", delay = "5 ms", queue = "100 kB", loss = { kind = "random", p = "1/5" } }
[flows.ping]
app = "ping"
from = "client"
to = "server"
every = "20 ms"
stop = "790 ms"
"#;

/// A place in which a user without privileges may run the program and write.
struct Nobody(Place);

impl Nobody {
    /// `None`, with the reason said, if this machine cannot show it.
    fn new(name: &str) -> Option<Self> {
        let place = Place::new(name);
        std::fs::copy(WAVELANE, place.0.join("wavelane")).unwrap();
        for (path, mode) in [("", 0o777), ("wavelane", 0o755)] {
            std::fs::set_permissions(place.0.join(path), std::fs::Permissions::from_mode(mode)).unwrap();
        }
        place.file("ping.toml", PING);
        let nobody = Self(place);
        let may = nobody.command(&["unshare", "-Un", "true"]).output().is_ok_and(|o| o.status.success());
        if !may {
            eprintln!("SKIPPED (needs root and user namespaces): programs over a link");
        }
        may.then_some(nobody)
    }
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).args(words);
        command.current_dir(&self.0.0).env("HOME", &self.0.0).stdin(Stdio::null());
        command
    }
    fn over(&self, args: &[&str]) -> Output {
        self.command(&[&["./wavelane", "over"], args].concat()).output().unwrap()
    }
}

#[test]
fn a_program_without_root_meets_the_losses_of_the_simulator() {
    let Some(nobody) = Nobody::new("over-ping") else { return };
    let record = nobody.0.path("sim");
    let o = wavelane(&["run", &nobody.0.path("ping.toml"), "--seed", "2", "--json", "--out", &record]);
    let run: serde_json::Value = serde_json::from_slice(&o.stdout).unwrap();
    let flow = &run["stacks"][0]["flows"][0];
    let (sent, lost) = (flow["sent"].as_u64().unwrap(), flow["lost"].as_u64().unwrap());
    assert!(sent == 40 && (8..32).contains(&lost), "{lost} of {sent} lost in the simulator");

    let ping = ["--", "ping", "-q", "-c", "40", "-i", "0.02", "-W", "1", "server"];
    let o = nobody.over(&[&["ping.toml", "--seed", "2", "--out", "over"], &ping[..]].concat());
    assert!(o.status.success() && err(&o).contains("crossed: air forward 0.00 MB"), "{}{}", out(&o), err(&o));
    assert!(out(&o).contains(&format!("40 packets transmitted, {} received", sent - lost)), "{}", out(&o));
    // The Record says what crossed, and can be drawn again.
    let record: serde_json::Value = serde_json::from_str(&nobody.0.read("over/record.json")).unwrap();
    let ways = record["stacks"][0]["ways"].as_array().unwrap();
    // 84 octets a ping: 56 of data, ICMP's and IP's headers.
    assert_eq!((ways.len(), ways[0]["offered_bytes"].as_u64()), (2, Some(40 * 84)));
    assert!(nobody.0.0.join("over/pcap/tcp-cubic-client-air.pcapng").exists());
    let o = wavelane(&["report", &nobody.0.path("over")]);
    assert!(o.status.success(), "{}", err(&o));
}

#[test]
fn it_reaches_a_program_at_another_node_by_its_name_and_ends_with_its_own_code() {
    let Some(nobody) = Nobody::new("over-at") else { return };
    let link = scenarios().join("links/loss-20.toml");
    std::fs::copy(link, nobody.0.0.join("link.toml")).unwrap();
    let serve = ["link.toml", "--stack", "tcp-bbr", "--at", "server", "exec python3 -m http.server 80 --directory ."];
    let o = nobody.over(&[&serve[..], &["--", "curl", "-sS", "http://server/ping.toml"]].concat());
    assert!(o.status.success(), "{}", err(&o));
    assert_eq!(out(&o), PING);
    let o = nobody.over(&["link.toml", "--from", "server", "--", "sh", "-c", "id -u; getent hosts client; exit 7"]);
    assert_eq!(o.status.code(), Some(7), "{}", err(&o));
    assert!(out(&o).starts_with("65534\n10.77."), "{}", out(&o));
    // What listens at no node is refused by the node's kernel, as everywhere.
    let o = nobody.over(&["ping.toml", "--", "curl", "-sS", "http://server/"]);
    assert_eq!(o.status.code(), Some(7), "curl's code for a refused connection: {}", err(&o));
}

#[test]
fn gateways_need_no_root_either() {
    let Some(nobody) = Nobody::new("over-gateways") else { return };
    let daemon = std::path::Path::new(WAVELANE).with_file_name("wavelaned");
    if !daemon.exists() {
        return eprintln!("SKIPPED (wavelaned is not built beside wavelane): gateways without root");
    }
    std::fs::copy(daemon, nobody.0.0.join("wavelaned")).unwrap();
    let body = std::fs::read(WAVELANE).unwrap()[..3_000_000].to_vec();
    std::fs::write(nobody.0.0.join("body"), &body).unwrap();
    std::fs::copy(scenarios().join("links/loss-20.toml"), nobody.0.0.join("link.toml")).unwrap();
    let serve = ["link.toml", "--stack", "wavelane", "--at", "server", "exec python3 -m http.server 80 --directory ."];
    let fetch = ["--", "curl", "-sS", "-m", "60", "-o", "copy", "http://server/body"];
    let o = nobody.over(&[&serve[..], &fetch[..]].concat());
    assert!(o.status.success(), "{}", err(&o));
    // At 20 % loss CUBIC alone would take minutes for it, and curl give up.
    assert!(std::fs::read(nobody.0.0.join("copy")).unwrap() == body, "what came is not what was sent");
    // Proxies in the same places, which say what they took.
    std::fs::copy(scenarios().join("links/fast.toml"), nobody.0.0.join("fast.toml")).unwrap();
    let serve = ["fast.toml", "--stack", "tcp-bbr+split", "--out", "split", "--at", "server", serve[5]];
    let o = nobody.over(&[&serve[..], &fetch[..]].concat());
    assert!(o.status.success(), "{}", err(&o));
    let log = nobody.0.read("split/log.txt");
    let split = |name: &str| log.lines().any(|line| line.contains(name) && line.contains("connections_taken=1"));
    assert!(split("proxy a: ") && split("proxy b: "), "{log}");
}

#[test]
fn what_cannot_run_is_refused_with_the_remedy() {
    let Some(nobody) = Nobody::new("over-refused") else { return };
    for (args, why) in [
        (&["ping.toml", "--from", "moon", "--", "true"][..], "no node 'moon': it has client, server"),
        (&["ping.toml", "--at", "moon", "true", "--", "true"], "no node 'moon'"),
        (&["ping.toml", "--stack", "tcp-vegas", "--", "true"], "there is no such stack"),
        (&["ping.toml", "--", "no-such-program"], "name a program of this machine"),
        (&["ping.toml", "--at", "server", "exit 3", "--", "true"], "ended with exit status: 3"),
        (&["ping.toml"], "<CMD>"),
    ] {
        let o = nobody.over(args);
        assert_eq!(o.status.code(), Some(2), "{args:?}: {}", err(&o));
        assert!(err(&o).contains(why), "{args:?}: {}", err(&o));
    }
}

/// Stations are joined by devices that this user may make: veth pairs where TUN devices are forbidden.
#[test]
fn a_program_crosses_a_radio_cell() {
    let Some(nobody) = Nobody::new("over-cell") else { return };
    let cell = scenarios().join("wifi/bulk-cell.toml").display().to_string();
    std::fs::copy(cell, nobody.0.0.join("cell.toml")).unwrap();
    let o = nobody.over(&["cell.toml", "--", "ping", "-c", "3", "-i", "0.2", "-W", "9", "s5"]);
    let said = String::from_utf8_lossy(&o.stdout).into_owned();
    assert_eq!(o.status.code(), Some(0), "{said}{}", err(&o));
    // Two frames at 2 Mbit/s with their ACKs, and a cable of 2 ms each way.
    let least = said.lines().find_map(|line| line.strip_prefix("rtt min/avg/max/mdev = ")?.split('/').next());
    assert!(least.is_some_and(|ms| ms.parse::<f64>().unwrap() > 5.0), "{said}");
    assert!(err(&o).contains("data frames/s"), "{}", err(&o));
}

#[test]
fn an_interrupted_one_leaves_nothing_running() {
    let Some(nobody) = Nobody::new("over-interrupted") else { return };
    let words = ["./wavelane", "over", "ping.toml", "--at", "server", "echo $$ >beside; nc -l -p 7 || sleep 60"];
    let in_front = ["--", "sh", "-c", "echo $$ >front; exec sleep 60"];
    let mut child = nobody.command(&[&words[..], &in_front].concat()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = |file: &str| {
        let text = std::fs::read_to_string(nobody.0.0.join(file)).ok()?;
        text.trim().parse::<u32>().ok()
    };
    for _ in 0..600 {
        if pid("front").is_some() {
            break;
        }
        #[expect(clippy::disallowed_methods, reason = "other programs write the files")]
        std::thread::sleep(Duration::from_millis(50));
    }
    let started = ["beside", "front"].map(|file| pid(file).unwrap());
    let asked = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(asked.success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    for pid in started {
        let comm = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        assert!(!["sh\n", "sleep\n", "nc\n"].contains(&comm.as_str()), "{comm} is still there");
    }
    let left = std::fs::read_dir(nobody.0.0.join("records")).map(Iterator::count).unwrap_or_default();
    assert_eq!(left, 0, "a draft was left");
}
