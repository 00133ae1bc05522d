//! Runs that end before their time leave nothing behind.

use super::*;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

#[test]
fn an_unfinished_flow_ends_in_time() {
    if skip() {
        return;
    }
    let _guard = ONE_AT_A_TIME.lock();
    let mut scenario = scenario(
        r#"
[flows.page]
app = "download"
from = "client"
to = "server"
size = "1 GB"
"#,
    );
    // real time: 2 s, a run that does not finish
    scenario.duration = Span::from_secs(2);
    let begun = realtime::now();
    let (raw, _, _out) = run(&scenario, tcp(TcpKind::Cubic), "unfinished");
    let raw = raw.unwrap();
    let page = &raw.flows[0];
    assert!(!page.completed && page.intact.is_none());
    assert!((1_000_000..5_100_000).contains(&page.octets), "{}", page.octets);
    assert_eq!(page.given_ns, 2_000_000_000);
    assert!(realtime::now().since(begun) < Span::from_secs(10));
    assert_eq!((children(), strays()), (Vec::new(), Vec::new()));
}

#[test]
fn cancelling_ends_the_run_at_once_and_leaves_no_child() {
    if skip() {
        return;
    }
    let _guard = ONE_AT_A_TIME.lock();
    let scenario = scenario(
        r#"
[flows.page]
app = "download"
from = "client"
to = "server"
size = "1 GB"
[flows.ping]
app = "echo"
from = "client"
to = "server"
every = "100 ms"
"#,
    );
    let out = Out::new("cancel");
    let cancelled = AtomicBool::new(true);
    let mut context = RunContext {
        out: &out.0,
        label: "test".into(),
        captures: wavelane_run::CaptureExtent::Headers,
        progress: &mut |p| panic!("while it is built: {}", p.note),
        cancelled: &cancelled,
    };
    let raw = LabBackend.run_stack(&scenario, tcp(TcpKind::Cubic), scenario.seed, &mut context);
    assert_eq!(raw.unwrap_err(), BackendError::Cancelled);
    cancelled.store(false, Ordering::Relaxed);
    let mut cancelled_at = None;
    let mut note = |p: Progress| {
        if p.at > Span::from_secs(1) && cancelled_at.is_none() {
            assert_eq!(children().len(), 1, "curl runs");
            cancelled_at = Some(realtime::now());
            cancelled.store(true, Ordering::Relaxed);
        }
    };
    let mut context = RunContext {
        out: &out.0,
        label: "test".into(),
        captures: wavelane_run::CaptureExtent::Headers,
        progress: &mut note,
        cancelled: &cancelled,
    };
    let raw = LabBackend.run_stack(&scenario, tcp(TcpKind::Cubic), scenario.seed, &mut context);
    assert_eq!(raw.unwrap_err(), BackendError::Cancelled);
    let took = realtime::now().since(cancelled_at.unwrap());
    assert!(took < Span::from_secs(3), "{took}");
    assert_eq!((children(), strays()), (Vec::new(), Vec::new()));
}

/// Set for the process that [`a_killed_lab_leaves_nothing`] starts and kills.
const VICTIM: &str = "WAVELANE_LAB_TEST_VICTIM";

/// Not a test of its own: what the killed process does.
#[test]
fn victim() {
    if std::env::var_os(VICTIM).is_none() {
        return;
    }
    let scenario = scenario(
        r#"
[flows.page]
app = "download"
from = "client"
to = "server"
size = "1 GB"
"#,
    );
    let out = Out::new("victim");
    let cancelled = AtomicBool::new(false);
    let mut note = |p: Progress| {
        if p.at > Span::from_millis(500) {
            println!("\nvictim {}", children()[0].split(' ').next().unwrap());
        }
    };
    let mut context = RunContext {
        out: &out.0,
        label: "test".into(),
        captures: wavelane_run::CaptureExtent::Headers,
        progress: &mut note,
        cancelled: &cancelled,
    };
    drop(LabBackend.run_stack(&scenario, tcp(TcpKind::Cubic), scenario.seed, &mut context));
}

#[test]
fn a_killed_lab_leaves_nothing() {
    if skip() {
        return;
    }
    let _guard = ONE_AT_A_TIME.lock();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "backend::tests::end::victim", "--nocapture"])
        .env(VICTIM, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let line = lines.into_iter().find(|l| l.starts_with("victim ")).expect("the victim got to its download");
    let curl: u32 = line.split(' ').nth(1).unwrap().parse().unwrap();
    assert!(std::path::Path::new(&format!("/proc/{curl}")).exists());
    child.kill().unwrap();
    child.wait().unwrap();
    let gone = || !std::fs::read_to_string(format!("/proc/{curl}/comm")).is_ok_and(|name| name.trim() == "curl");
    crate::sockets::rest_until(realtime::now() + Span::from_secs(5), gone);
    assert!(gone(), "curl {curl} outlived the lab");
    let folder = std::env::temp_dir().join(format!("wavelane-{}-victim", child.id()));
    std::fs::remove_dir_all(folder).unwrap();
}
