//! `wavelane top` beside a running gateway.

use crate::common::{Place, WAVELANE, err, out, wavelane};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A process that ends with the test.
struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until something is there.
#[expect(clippy::disallowed_methods, reason = "other processes keep real time")]
fn wait_for<T>(what: &str, mut there: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + Duration::from_secs(120);
    loop {
        if let Some(found) = there() {
            return found;
        }
        assert!(Instant::now() < until, "no {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

// real time: 1 s, until the second look finds that nobody reads
#[test]
fn it_ends_with_its_reader() {
    let daemon = Path::new(WAVELANE).with_file_name("wavelaned");
    if !daemon.exists() {
        return eprintln!("SKIPPED (1 test): {} is not built", daemon.display());
    }
    let place = Place::new("top");
    let key = |name: &str| {
        let made = wavelane(&["keygen", "--out", &place.path(name)]);
        assert!(made.status.success(), "{}", err(&made));
        out(&made).trim().to_owned()
    };
    let (_, other) = (key("own.key"), key("other.key"));
    let control = place.path("control.sock");
    // An address of this test process alone.
    let listen = std::net::Ipv4Addr::from_bits(0x7f00_0000 | std::process::id() & 0xff_ffff);
    let config = place.file("wavelaned.toml", &format!(
        "[gateway]\nname = \"ship\"\nkey = \"own.key\"\nlisten = \"{listen}:4780\"\ncontrol = \"{control}\"\nserves = []\n[[peer]]\nname = \"shore\"\npublic_key = \"{other}\"\n"
    ));
    let mut gateway = Command::new(daemon);
    let _gateway = Ending(gateway.args(["--config", &config]).stderr(Stdio::null()).spawn().unwrap());
    wait_for("answer of the gateway", || wavelane(&["status", "--control", &control]).status.success().then_some(()));
    let mut top = Command::new(WAVELANE);
    top.args(["top", "--every", "1", "--control", &control]).stdin(Stdio::null()).stderr(Stdio::piped());
    let mut top = Ending(top.stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(top.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("gateway ship, up "), "{line}");
    let ended = wait_for("end of `top`, of which one line was read", || top.0.try_wait().unwrap());
    assert_eq!(ended.code(), Some(0));
}
