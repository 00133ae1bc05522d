//! Host facts for `environment.json`: what a reader needs to judge whether two machines compare.

use serde_json::{Value, json};
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

fn fact(path: &str) -> Value {
    std::fs::read_to_string(path).map_or(Value::Null, |text| Value::String(text.trim().to_owned()))
}

/// The first value of a `key : value` file such as /proc/cpuinfo.
fn first(path: &str, key: &str) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let line = text.lines().find(|l| l.split(':').next().is_some_and(|k| k.trim() == key));
    line.and_then(|l| l.split_once(':')).map_or(Value::Null, |(_, v)| Value::String(v.trim().to_owned()))
}

/// What this process has used: seconds of processor time in its own code and in the kernel's for it, and the most
/// memory it ever held.
fn usage() -> (Option<f64>, Option<u64>) {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Fields 14 and 15, counted from 1; the second, in brackets, may hold spaces.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |i: usize| fields.get(i).and_then(|t| t.parse::<f64>().ok());
    let cpu_s = ticks(11).zip(ticks(12)).map(|(user, system)| (user + system) / CLOCK_TICKS);
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok());
    (cpu_s, peak)
}

/// The commit that the program was built of.
static COMMIT: OnceLock<&str> = OnceLock::new();

/// Says what commit the program was built of, once, before anything runs; an empty one is not known.
pub fn built_of(commit: &'static str) {
    if !commit.is_empty() {
        let _ = COMMIT.set(commit);
    }
}

/// The commit that it was built of, if that is known.
pub fn commit() -> Option<&'static str> {
    COMMIT.get().copied()
}

/// USER_HZ, in which Linux states processor times, whatever its own clock (proc(5), `sysconf(_SC_CLK_TCK)`).
const CLOCK_TICKS: f64 = 100.0;

/// The content of `environment.json`, for [`crate::RunHooks::environment`].
#[expect(clippy::disallowed_methods, reason = "wall-clock facts belong in this file and nowhere else")]
pub fn host_facts() -> Value {
    let unix_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let (cpu_s, rss_peak_kb) = usage();
    json!({
        "written_unix_s": unix_s,
        "cpu_s": cpu_s,
        "rss_peak_kb": rss_peak_kb,
        "wavelane": env!("CARGO_PKG_VERSION"),
        "commit": commit(),
        "build": if cfg!(debug_assertions) { "debug" } else { "release" },
        "arguments": std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>(),
        "kernel": fact("/proc/sys/kernel/osrelease"),
        "kernel_build": fact("/proc/version"),
        "cpu": first("/proc/cpuinfo", "model name"),
        "cpus": std::thread::available_parallelism().map(usize::from).ok(),
        "memory": first("/proc/meminfo", "MemTotal"),
        "load": fact("/proc/loadavg"),
        "clocksource": fact("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        "congestion_control": fact("/proc/sys/net/ipv4/tcp_congestion_control"),
        "congestion_control_available": fact("/proc/sys/net/ipv4/tcp_available_congestion_control"),
        "default_qdisc": fact("/proc/sys/net/core/default_qdisc"),
        "tcp_rmem": fact("/proc/sys/net/ipv4/tcp_rmem"),
        "tcp_wmem": fact("/proc/sys/net/ipv4/tcp_wmem"),
        "tcp_timestamps": fact("/proc/sys/net/ipv4/tcp_timestamps"),
        "tcp_sack": fact("/proc/sys/net/ipv4/tcp_sack"),
    })
}
