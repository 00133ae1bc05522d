//! Follows the first pages of `docs/guide/gateway.md` word for word, in namespaces that look as it says.

use crate::common::*;
use clap::{Parser, Subcommand};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use wavelane_daemon::commands::{self, InitArgs, KeygenArgs, PingArgs, ReloadArgs, StatusArgs};
use wavelane_host::netns::{ChildEnd, Netns};

/// The gateway's part of the program `wavelane`, from the same argument types.
#[derive(Parser)]
struct Tool {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Keygen(KeygenArgs),
    Init(Box<InitArgs>),
    Check {
        file: PathBuf,
        #[arg(long)]
        with: Option<String>,
    },
    Status(StatusArgs),
    Ping(PingArgs),
    Reload(ReloadArgs),
}

fn guide() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/gateway.md")).unwrap()
}

/// The guide's shell blocks: where each is typed, and its commands.
fn blocks(page: &str) -> Vec<(String, Vec<String>)> {
    let block = |text: &str| {
        let joined = text.replace("\\\n", " ");
        let place = joined.lines().next().unwrap().to_owned();
        let commands = joined.lines().map(|l| l.split(" #").next().unwrap().trim().to_owned());
        (place, commands.filter(|l| !l.is_empty() && !l.starts_with('#')).collect())
    };
    page.split("```sh\n").skip(1).map(|rest| block(rest.split("```").next().unwrap())).collect()
}

/// What was printed and started while the guide was followed.
struct Follower<'a> {
    world: &'a World,
    /// What the last keygen of each gateway printed.
    keys: BTreeMap<&'static str, String>,
    daemons: BTreeMap<&'static str, Daemon>,
}

impl Follower<'_> {
    fn folder(&self, name: &str) -> String {
        self.world.dir.join(name).display().to_string()
    }
    fn type_at(&mut self, name: &'static str, ns: &Netns, line: &str) {
        let folder = self.folder(name);
        let mut line = line.replace("/etc/wavelane", &folder).replace("192.0.2.7", "10.2.0.2");
        for (whose, key) in &self.keys {
            line = line.replace(&format!("\"${}_KEY\"", whose.to_uppercase()), key);
        }
        assert!(!line.contains('$'), "a key was not made before it was used: {line}");
        match line.split_whitespace().next().unwrap() {
            "wavelane" => self.wavelane(name, ns, &line),
            "wavelaned" => self.start(name, ns, &line),
            "sysctl" => drop(self.world.sh(ns, &line)),
            // Not in a test: it builds anew and writes into the system's folders.
            "make" => {}
            other => panic!("the guide uses '{other}', which this test does not know"),
        }
    }
    fn wavelane(&mut self, name: &'static str, ns: &Netns, line: &str) {
        let socket = PathBuf::from(self.folder(name)).join("control.sock");
        let tool = Tool::try_parse_from(line.split_whitespace()).unwrap_or_else(|e| panic!("{line}: {e}"));
        let said = match tool.command {
            Command::Keygen(args) => {
                let key = commands::keygen(&args).unwrap();
                self.keys.insert(name, key.trim().to_owned());
                key
            }
            Command::Init(mut args) => {
                // The usual place is shared by everything that runs on this machine.
                args.control = Some(socket);
                commands::init(&args).unwrap().public_key
            }
            Command::Check { file, with: Some(peer) } => {
                let found = commands::check_with(&file, &peer, Some(&socket)).unwrap();
                assert!(found.sound, "{line}: {found:?}");
                found.text
            }
            Command::Check { file, .. } => ns.run(move || commands::check_config(&file).unwrap()).unwrap(),
            Command::Status(args) => commands::status(&StatusArgs { control: Some(socket), ..args }).unwrap(),
            Command::Ping(args) => {
                let args = PingArgs { control: Some(socket), ..args };
                let pings = commands::ping(&args, || false, |_| Ok(())).unwrap();
                assert!(pings.any(), "{line}: {pings}");
                pings.to_string()
            }
            Command::Reload(args) => commands::reload(&ReloadArgs { control: Some(socket), ..args }).unwrap(),
        };
        assert!(!said.contains("warning"), "{line}: {said}");
    }
    fn start(&mut self, name: &'static str, ns: &Netns, line: &str) {
        let config = PathBuf::from(line.split_whitespace().nth(2).unwrap());
        let (command, log, _) = daemon_command(&config);
        let child = ns.spawn(command, ChildEnd::Kill).unwrap().unwrap();
        let control = config.parent().unwrap().join("control.sock");
        let daemon = Daemon { child, log, control, own_folder: None };
        daemon.wait_log("listens on UDP");
        self.daemons.insert(name, daemon);
    }
}

#[test]
fn the_guides_first_five_minutes_work_as_written() {
    let _alone = alone();
    if !root_or_skip("guide") {
        return;
    }
    let world = World::new("guide");
    world.serve(80, |mut stream, from| {
        let _ = write!(stream, "{}", from.ip());
    });
    let mut follower = Follower { world: &world, keys: BTreeMap::new(), daemons: BTreeMap::new() };
    for (place, lines) in blocks(&guide()) {
        for line in lines {
            let (ship, shore) = (("ship", &world.a), ("shore", &world.b));
            let at = match place.as_str() {
                "# on the ship" => vec![ship],
                "# on the shore" => vec![shore],
                both if both.starts_with("# on both") => vec![shore, ship],
                other => panic!("a block begins with '{other}', not with where it is typed"),
            };
            for (name, ns) in at {
                follower.type_at(name, ns, &line);
            }
        }
    }
    let ship = &follower.daemons["ship"];
    ship.wait_log("peer 'shore' is up");
    let mut said = String::new();
    world.connect(&world.client, "10.3.0.2:80").unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(said, "10.3.0.1", "the shore connects from its own address");
    assert_eq!((ship.counter("connections_taken"), follower.daemons["shore"].counter("connections_made")), (1, 1));
}

/// The page of lanes types `init --lane`, and what that writes is in order and has the lanes that the page shows.
#[test]
fn the_page_of_lanes_makes_files_that_are_in_order() {
    let page =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/lanes.md")).unwrap();
    let folder = std::env::temp_dir().join(format!("wavelane-lanes-page-{}", std::process::id()));
    let typed = blocks(&page).into_iter().flat_map(|(_, lines)| lines);
    let lines: Vec<String> = typed.filter(|line| line.starts_with("wavelane init ")).collect();
    let mut made = lines.iter().enumerate().map(|(n, line)| {
        let dir = folder.join(n.to_string());
        let line = line.replace("\"$SHORE_KEY\"", "CQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQk=");
        let line = format!("{line} --dir {}", dir.display());
        let tool = Tool::try_parse_from(line.split_whitespace()).unwrap_or_else(|e| panic!("{line}: {e}"));
        let Command::Init(args) = tool.command else { panic!("{line}") };
        let made = commands::init(&args).unwrap();
        let said = commands::check_config(&made.config).unwrap();
        assert!(said.contains("gateway '") && said.contains("lane 2"), "{said}");
        std::fs::read_to_string(made.config).unwrap()
    });
    let (ship, farm) = (made.next().unwrap(), made.next().unwrap());
    let shown = page.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    let tables = |text: &str| text[text.find("[[peer.lane]]").unwrap()..].trim().to_owned();
    assert!(tables(&ship).starts_with(&tables(shown)), "{ship}");
    assert!(farm.contains("device = \"wwan0\"\nmetered = true\n"), "{farm}");
    std::fs::remove_dir_all(folder).unwrap();
}

/// The tables of keys in the guide are what the configuration takes, neither more nor less.
#[test]
fn the_guides_tables_of_keys_are_complete_and_true() {
    let page = guide();
    for header in ["[gateway]", "[[peer]]", "[intercept]", "[tun]", "[[forward]]", "[[edge]]", "[[shaper]]"] {
        let table =
            page.split(&format!("<!-- settings: {header} -->")).nth(1).unwrap().split("<!-- end -->").next().unwrap();
        let mut documented: Vec<&str> =
            table.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
        // The parser itself lists what it takes when it meets a key that it does not know.
        let gateway = if header == "[gateway]" { "" } else { "[gateway]\nname = \"ship\"\nkey = \"ship.key\"\n" };
        let text = format!("{gateway}{header}\nnonsense = 1\n");
        let why = match header {
            "[[shaper]]" => wavelane_daemon::shaper::parse_text("[[shaper]]\nnonsense = 1\n").unwrap_err().to_string(),
            _ => wavelane_daemon::config::Config::parse(&text, "guide", Path::new(".")).unwrap_err().to_string(),
        };
        let (_, known) = why.split_once("use one of ").unwrap_or_else(|| panic!("{why}"));
        let mut taken: Vec<&str> = known.split(';').next().unwrap().split(", ").collect();
        // `[[peer.lane]]` has a table of its own (lanes.md).
        taken.retain(|key| *key != "lane");
        documented.sort_unstable();
        taken.sort_unstable();
        assert_eq!(documented, taken, "{header}");
    }
}
