//! `trace` against tcptrace, tshark and the kernel's own counters, on captures of kernel TCP that the test makes.
//!
//! Every case is captured at the sender and at the receiver. Where tcptrace is wrong, `docs/decisions/0032-trace.md`
//! says why; those fields are left out below, each with its reason.

mod net;

use net::{Captured, Case, End, Kernel};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

const CASES: [Case; 30] = [
    Case { name: "cubic", ..Case::PLAIN },
    Case { name: "reno", congestion: "reno", ..Case::PLAIN },
    Case { name: "bbr", congestion: "bbr", ..Case::PLAIN },
    Case { name: "shallow", queue: 8_000, ..Case::PLAIN },
    Case { name: "deep", queue: 300_000, ..Case::PLAIN },
    Case { name: "cubic-loss", loss: 20, ..Case::PLAIN },
    Case { name: "reno-loss", congestion: "reno", loss: 20, rate: "20mbit", octets: 2_000_000, ..Case::PLAIN },
    Case { name: "bbr-loss", congestion: "bbr", loss: 40, ..Case::PLAIN },
    Case { name: "heavy-loss", loss: 100, octets: 300_000, ..Case::PLAIN },
    Case { name: "reordering", detour: 4, rate: "20mbit", queue: 60_000, octets: 2_000_000, ..Case::PLAIN },
    Case { name: "six", six: true, ..Case::PLAIN },
    Case { name: "six-loss", six: true, loss: 20, ..Case::PLAIN },
    Case { name: "no-timestamps", loss: 20, settings: &[("net/ipv4/tcp_timestamps", "0")], ..Case::PLAIN },
    Case { name: "no-sack", loss: 20, settings: &[("net/ipv4/tcp_sack", "0")], ..Case::PLAIN },
    Case { name: "zero-window", end: End::Pauses, octets: 6_000_000, rate: "100mbit", snaplen: 96, ..Case::PLAIN },
    Case { name: "reset", end: End::Resets, snaplen: 68, ..Case::PLAIN },
    Case { name: "outage", end: End::Outage, octets: 4_000_000, ..Case::PLAIN },
    Case { name: "both-ways", end: End::Echoes, octets: 800_000, ..Case::PLAIN },
    Case { name: "many", connections: 12, octets: 20_000, ..Case::PLAIN },
    Case { name: "ecn", marks: 30, settings: &[ECN], ..Case::PLAIN },
    Case { name: "ecn-loss", marks: 30, loss: 20, settings: &[ECN], ..Case::PLAIN },
    Case { name: "six-ecn", congestion: "reno", marks: 30, six: true, settings: &[ECN], ..Case::PLAIN },
    Case { name: "six-bbr", congestion: "bbr", six: true, ..Case::PLAIN },
    Case {
        name: "six-reordering",
        six: true,
        detour: 4,
        rate: "20mbit",
        queue: 60_000,
        octets: 2_000_000,
        ..Case::PLAIN
    },
    Case {
        name: "six-zero-window",
        six: true,
        end: End::Pauses,
        octets: 6_000_000,
        rate: "100mbit",
        // All options: Ethernet 14, IPv6 40, TCP 20 and 40. D-SACKs cannot be told in less.
        snaplen: 114,
        ..Case::PLAIN
    },
    Case { name: "six-reset", six: true, end: End::Resets, snaplen: 88, ..Case::PLAIN },
    Case { name: "six-both-ways", six: true, end: End::Echoes, octets: 800_000, ..Case::PLAIN },
    Case { name: "six-outage", six: true, end: End::Outage, octets: 4_000_000, ..Case::PLAIN },
    Case { name: "no-window-scaling", loss: 20, settings: &[("net/ipv4/tcp_window_scaling", "0")], ..Case::PLAIN },
    Case { name: "no-dsack", loss: 20, settings: &[("net/ipv4/tcp_dsack", "0")], ..Case::PLAIN },
];
/// Connections ask for explicit congestion notification.
const ECN: (&str, &str) = ("net/ipv4/tcp_ecn", "1");
const REFUSED: Case = Case { name: "refused", end: End::Refuses, ..Case::PLAIN };
/// Captures of other people's hosts in `testing/captures/tcpdump`.
const OTHERS_MIN: usize = 18;
/// Cases run at once: they wait more than they work.
const AT_ONCE: usize = 5;
/// tshark takes a second per file, so it sees some.
const TSHARK: [&str; 5] = ["cubic", "reno-loss", "bbr-loss", "six-loss", "many"];
/// Judged at the receiver too, which takes two runs of tshark.
const AT_RECEIVER: [&str; 6] = ["cubic", "bbr", "shallow", "cubic-loss", "reno-loss", "bbr-loss"];

fn is_there(tool: &str) -> bool {
    Command::new("which").arg(tool).stdout(Stdio::null()).status().is_ok_and(|s| s.success())
}

fn missing() -> Option<String> {
    if !wavelane_host::netns::may_administer_network() {
        return Some("needs root".to_owned());
    }
    let tools = ["ip", "tc", "nft", "ethtool", "tcpdump", "tcptrace", "tshark"];
    let missing: Vec<&str> = tools.into_iter().filter(|t| !is_there(t)).collect();
    (!missing.is_empty()).then(|| format!("{} is missing: apt-get install it", missing.join(", ")))
}

fn analysed(file: &Path) -> Value {
    let trace = wavelane_probe::trace::analyse(std::fs::File::open(file).unwrap(), |_| true).unwrap();
    wavelane_probe::trace::json(&trace, &file.display().to_string())
}

fn said(tool: &str, words: &[&str], file: &Path) -> String {
    let out = Command::new(tool).args(words).arg(file).stderr(Stdio::null()).output().unwrap();
    String::from_utf8(out.stdout).unwrap()
}

/// tcptrace's table: a line of columns, then one per connection.
fn tcptrace(file: &Path) -> Vec<Vec<(String, String)>> {
    let text = said("tcptrace", &["--csv", "-l", "-r", "-W", "-n"], file);
    let mut lines = text.lines().skip_while(|l| !l.starts_with("conn_#")).filter(|l| !l.trim().is_empty());
    let split = |line: &str| line.split(',').map(|c| c.trim().to_owned()).collect::<Vec<_>>();
    let columns = split(lines.next().unwrap_or_else(|| panic!("tcptrace does not read {}: {text}", file.display())));
    lines.map(|line| columns.iter().cloned().zip(split(line)).collect()).collect()
}

/// Why a field is not compared in a direction, if it is not.
fn exempt(field: &str, connection: &Value, way: &str) -> bool {
    match field {
        // It takes a segment of one octet, which a SYN is, for one of 2^32, and no later one is as large.
        _ if field.starts_with("RTT_full_sz") => true,
        // Every product is cut to a whole number of octet-seconds; compared below.
        "wavg_owin" => true,
        // After a reset it takes the last number seen for the stream's end, which counts the FIN.
        "ttl_stream_length" | "missed_data" => connection["complete"] == "reset",
        // It takes one from 2^15 on for negative.
        "mss_requested" => connection[way][field].as_u64().unwrap() >= 1 << 15,
        // A time of zero microseconds is no sample to it.
        "RTT_min" | "RTT_min_(last)" | "min_retr_time" => connection[way][field].as_f64().unwrap() < 0.001,
        _ => false,
    }
}

/// Half of the last digit that tcptrace prints, and what is lost below a microsecond.
fn tolerance(field: &str, theirs: f64) -> f64 {
    match field {
        "throughput" => 0.5 + theirs * 1e-6,
        // It divides by a thousandth more than the count, and cuts off.
        "avg_segm_size" => 1.0 + theirs * 1.001e-3,
        // It divides by 0.0001 more than the count.
        "RTT_avg" | "RTT_avg_(last)" | "avg_retr_time" => 0.052 + theirs * 1e-4,
        _ if field.contains("RTT") || field.contains("retr_time") || field.contains("idle") => 0.052,
        "data_xmit_time" => 0.000_6,
        _ => 0.0,
    }
}

/// tcptrace keeps sequence numbers by quarters of their space and cuts a segment that lies across two of them in two.
fn crosses_a_quarter(connection: &Value) -> bool {
    ["a2b", "b2a"].iter().any(|way| {
        let half = &connection[way];
        let Some(first) = half["initial_seq"].as_u64() else { return false };
        first >> 30 != (first + half["unique_bytes_sent"].as_u64().unwrap() + 2) >> 30
    })
}

fn compare_with_tcptrace(file: &Path, ours: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    let theirs = tcptrace(file);
    let connections = ours["connections"].as_array().unwrap();
    if theirs.len() != connections.len() {
        return vec![format!("{}: tcptrace {} connections, here {}", file.display(), theirs.len(), connections.len())];
    }
    let mut compared = 0;
    for (columns, connection) in theirs.iter().zip(connections) {
        if crosses_a_quarter(connection) {
            println!("{}: a connection crosses a quarter of the sequence space, not compared", file.display());
            continue;
        }
        // An acknowledgement that was captured before what it answers leaves less than nothing outstanding, which it takes for
        // 2^64 less that.
        let wraps = |way: &str| {
            let most = format!("max_owin_{way}");
            columns.iter().any(|(c, value)| *c == most && value.parse::<f64>().is_ok_and(|value| value > 9e18))
        };
        for (column, theirs) in columns {
            let Some((field, way)) = column.rsplit_once('_').filter(|(_, way)| ["a2b", "b2a"].contains(way)) else {
                continue;
            };
            let field = &field.replace(' ', "_");
            let ours = &connection[way][field];
            compared += 1;
            let same = match ours {
                _ if exempt(field, connection, way) || field.ends_with("_owin") && wraps(way) => true,
                Value::Null => theirs == "NA" && connection[way].get(field).is_some(),
                Value::String(text) => text == theirs,
                number => {
                    theirs.parse::<f64>().is_ok_and(|t| (t - number.as_f64().unwrap()).abs() <= tolerance(field, t))
                }
            };
            if !same {
                wrong.push(format!("{}: {way} {field}: tcptrace {theirs}, here {ours}", file.display()));
            }
        }
    }
    assert!(compared > 130 || connections.iter().all(crosses_a_quarter), "{}: {compared} fields", file.display());
    wrong
}

/// Packets, octets of data and what tshark's rules call a repetition, per connection and direction.
fn compare_with_tshark(file: &Path, ours: &Value) -> Vec<String> {
    let fields = ["tcp.stream", "ip.src", "ipv6.src", "tcp.srcport", "tcp.len"];
    let flags = ["tcp.analysis.retransmission", "tcp.analysis.out_of_order"];
    let mut words = vec!["-T", "fields", "-E", "occurrence=f"];
    words.extend(fields.iter().chain(&flags).flat_map(|f| ["-e", f]));
    words.extend(["-Y", "tcp", "-r"]);
    let text = said("tshark", &words, file);
    // Who sends a connection's first packet is a.
    let mut firsts = std::collections::BTreeMap::<usize, Vec<String>>::new();
    let mut sums = std::collections::BTreeMap::<(usize, bool), [u64; 3]>::new();
    for line in text.lines() {
        let cells: Vec<&str> = line.split('\t').collect();
        let (stream, sender) = (cells[0].parse().unwrap(), cells[1..4].iter().map(|c| (*c).to_owned()).collect());
        let to_server = firsts.entry(stream).or_insert_with(|| Vec::clone(&sender)) == &sender;
        let sum = sums.entry((stream, to_server)).or_default();
        sum[0] += 1;
        sum[1] += cells[4].parse::<u64>().unwrap();
        sum[2] += u64::from(!cells[5].is_empty() || !cells[6].is_empty());
    }
    let mut wrong = Vec::new();
    for ((stream, to_server), [packets, octets, again]) in sums {
        let half = &ours["connections"][stream][if to_server { "a2b" } else { "b2a" }];
        let of = |name: &str| half[name].as_u64().unwrap();
        let near = of("rexmt_data_pkts").abs_diff(again) <= 1 + again / 50;
        if of("total_packets") != packets || of("actual_data_bytes") != octets || !near {
            let here = (of("total_packets"), of("actual_data_bytes"), of("rexmt_data_pkts"));
            wrong.push(format!(
                "{} stream {stream}: tshark {packets} packets, {octets} octets, {again} again; here {here:?}",
                file.display()
            ));
        }
    }
    wrong
}

/// Within a hundredth, or one.
fn near(ours: u64, kernel: u64) -> bool {
    ours.abs_diff(kernel) <= 1.max(kernel / 100)
}

/// The classes at the sender against the sender's kernel.
fn compare_with_kernel(name: &str, kernel: &Kernel, ours: &Value) -> Vec<String> {
    let sum = |class: &str| {
        let connections = ours["connections"].as_array().unwrap().iter();
        connections.map(|c| c["a2b"]["retransmits"][class].as_u64().unwrap()).sum::<u64>()
    };
    let (fast, rto, tlp) = (sum("fast"), sum("rto"), sum("tlp"));
    // Some timeouts find the original still in the host's own queue and send nothing.
    let rto_kernel = (kernel.timeouts + kernel.slow_start).saturating_sub(kernel.held_back);
    let tlp_kernel = kernel.again.saturating_sub(kernel.fast + rto_kernel);
    // Without SACK a partial acknowledgement and one after a timeout look alike in few segments. A timeout that F-RTO (RFC
    // 5682) takes back returns the kernel to the state before it, which no capture shows: about one segment of each.
    let alike = |ours: u64, kernels: u64| {
        let of_timeouts = ours.abs_diff(kernels) <= kernel.timeouts;
        of_timeouts || name == "no-sack" && ours.abs_diff(kernels) <= 3.max(kernels / 10)
    };
    let of_late_copies = name.ends_with("reordering");
    // Of a timeout amid late segments the kernel learns in time that it was none, and goes back to the state before: the
    // classes then say what it believed, which no capture shows.
    let undone = of_late_copies && kernel.timeouts > 0;
    let spurious = sum("spurious");
    let told_alike = if of_late_copies { spurious == kernel.dsacks } else { near(spurious, kernel.dsacks) };
    let fine = undone && near(fast + rto + tlp, kernel.again) && told_alike
        || (near(fast, kernel.fast) || alike(fast, kernel.fast))
            && (near(rto, rto_kernel) || alike(rto, rto_kernel))
            && near(tlp, tlp_kernel)
            && near(fast + rto + tlp, kernel.again)
            && told_alike;
    let all = ours["connections"][0]["a2b"]["retransmits"].to_string();
    println!("{name}: {kernel:?}, here {all}");
    if fine { Vec::new() } else { vec![format!("{name}: {kernel:?}, here {all}")] }
}

/// Segments with data that left the sender for the second time, and how many of them reached the receiver: told by
/// their IP identification, from both captures.
fn reached(captured: &Captured) -> (u64, u64) {
    let segments = |file: &Path| -> Vec<(String, String)> {
        let words = ["-T", "fields", "-e", "ip.id", "-e", "tcp.seq", "-Y", "tcp.len>0 and tcp.dstport==5001", "-r"];
        let text = said("tshark", &words, file);
        text.lines().filter_map(|l| l.split_once('\t')).map(|(id, seq)| (id.to_owned(), seq.to_owned())).collect()
    };
    let there: std::collections::BTreeSet<_> = segments(&captured.receiver).into_iter().collect();
    let mut seen = std::collections::BTreeSet::new();
    let again: Vec<_> = segments(&captured.sender).into_iter().filter(|(_, seq)| !seen.insert(seq.clone())).collect();
    (again.len() as u64, again.iter().filter(|s| there.contains(s)).count() as u64)
}

/// How far off all cases together are at the receiver, and how many repetitions reached it. The aim is a twentieth; a
/// case alone has too few, for a lost repetition between others may as well have been new data.
static RECEIVER_OFF: AtomicU64 = AtomicU64::new(0);
static RECEIVER_REACHED: AtomicU64 = AtomicU64::new(0);

fn compare_at_receiver(name: &str, captured: &Captured, ours: &Value) {
    let (again, reached) = reached(captured);
    let classes = &ours["connections"][0]["a2b"]["retransmits"];
    let here: u64 = ["fast", "rto", "tlp"].iter().map(|class| classes[class].as_u64().unwrap()).sum();
    println!("{name} at the receiver: {again} sent again, {reached} reached it, here {classes}");
    RECEIVER_OFF.fetch_add(here.abs_diff(reached), Ordering::Relaxed);
    RECEIVER_REACHED.fetch_add(reached, Ordering::Relaxed);
}

fn judge(case: &Case, captured: &Captured) -> Vec<String> {
    let mut wrong = Vec::new();
    for file in [&captured.sender, &captured.receiver] {
        let ours = analysed(file);
        wrong.extend(compare_with_tcptrace(file, &ours));
        if TSHARK.contains(&case.name) && file == &captured.sender {
            wrong.extend(compare_with_tshark(file, &ours));
        }
        let connection = &ours["connections"][0]["a2b"];
        if file == &captured.sender && case.end != End::Resets {
            wrong.extend(compare_with_kernel(case.name, &captured.kernel, &ours));
        }
        if AT_RECEIVER.contains(&case.name) && file == &captured.receiver {
            compare_at_receiver(case.name, captured, &ours);
        }
        if case.end == End::Reads && case.name != "many" {
            let expected = if file == &captured.sender { "sender" } else { "receiver" };
            println!("{}: vantage {} for {expected}", case.name, connection["vantage"]);
        }
        if case.marks > 0 && file == &captured.receiver && captured.kernel.marked == 0 {
            wrong.push(format!("{}: no segment was marked, so the case shows nothing", case.name));
        }
        if case.end == End::Outage && file == &captured.sender && connection["retransmits"]["timeouts"] == 0 {
            wrong.push(format!("{}: no timeout, so the case shows nothing", case.name));
        }
        if case.end == End::Pauses && file == &captured.receiver && ours["connections"][0]["b2a"]["zero_win_adv"] == 0 {
            wrong.push(format!("{}: the window never closed, so the case shows nothing", case.name));
        }
    }
    wrong
}

/// A capture in which the server's segments stand twice, a tenth of a millisecond apart and with one IP identification.
const COPIED: &str = "pptp.pcap";

#[test]
fn captures_of_others_agree_with_tcptrace_and_tshark() {
    if let Some(tool) = ["tcptrace", "tshark"].into_iter().find(|tool| !is_there(tool)) {
        return eprintln!("SKIPPED (needs {tool}: apt-get install it): captures of others against tcptrace and tshark");
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testing/captures/tcpdump");
    let entries = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|e| e == "pcap")).collect();
    files.sort();
    assert!(files.len() >= OTHERS_MIN, "{} holds {}", folder.display(), files.len());
    let mut wrong = Vec::new();
    for file in &files {
        let ours = analysed(file);
        println!("{}: {} connections", file.display(), ours["connections"].as_array().unwrap().len());
        if file.ends_with(COPIED) {
            // Both take copies for sent again: half of its packets.
            assert_eq!(ours["copies"], 8, "{ours}");
            continue;
        }
        wrong.extend(compare_with_tcptrace(file, &ours));
        wrong.extend(compare_with_tshark(file, &ours));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn figures_agree_with_tcptrace_tshark_and_the_kernel() {
    if let Some(why) = missing() {
        eprintln!("SKIPPED ({why}): captures of kernel TCP against tcptrace and tshark");
        return;
    }
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("captures-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let mut wrong = Vec::new();
    let all: Vec<Case> = CASES.into_iter().chain([REFUSED]).collect();
    for some in all.chunks(AT_ONCE) {
        let work = |case: &Case| {
            let (case, directory) = (*case, directory.clone());
            std::thread::spawn(move || judge(&case, &net::capture(case, &directory)))
        };
        let running: Vec<_> = some.iter().map(work).collect();
        wrong.extend(running.into_iter().flat_map(|r| r.join().expect("a case that panicked has said why")));
    }
    let (off, reached) = (RECEIVER_OFF.load(Ordering::Relaxed), RECEIVER_REACHED.load(Ordering::Relaxed));
    println!("at the receiver all together: {off} off of {reached}");
    if off > reached / 10 {
        wrong.push(format!("at the receiver all together {off} off of {reached}, more than a tenth"));
    }
    assert!(wrong.is_empty(), "the captures are in {}\n{}", directory.display(), wrong.join("\n"));
    std::fs::remove_dir_all(&directory).unwrap();
}
