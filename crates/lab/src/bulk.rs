//! Downloads and uploads: curl in the client's namespace, read and fed through pipes.

use crate::LabError;
use crate::content::{Content, Digested, Received};
use crate::http::Upload;
use crate::mptcp;
use crate::sockets::rest_until;
use crate::tools::{INSTALL_CURL, command};
use crate::workload::Workload;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use wavelane_base::Span;
use wavelane_host::netns::ChildEnd;
use wavelane_host::realtime;
use wavelane_run::FlowRaw;

/// Body length of a flow limited by time instead of size: more than any run can carry.
pub(crate) const ENDLESS: u64 = 1 << 42;
/// Interval at which a waiting flow checks whether it must stop.
const GLANCE: Span = Span::from_millis(20);
/// Bytes read from curl at once.
const CHUNK: usize = 64 << 10;
/// How long curl may take to end after its `--max-time`.
const GRACE: Span = Span::from_secs(2);
/// curl's exit code for `--max-time` (curl(1)).
const CURL_TIMED_OUT: i32 = 28;

impl Workload {
    /// Starts curl with the options that all flows share, plus `more`.
    fn curl(&self, more: &[&str], stdin: Stdio) -> Result<Child, LabError> {
        let left = self.stop.since(realtime::now()).as_secs_f64().max(0.001);
        let mut command = match self.control.strip_prefix(mptcp::WORD) {
            // Versions before 8.9 have no --mptcp.
            Some(_) => {
                let mut wrapper = command(mptcp::WRAPPER);
                wrapper.args(["run", "curl"]);
                wrapper
            }
            None => command("curl"),
        };
        // -q must come first: it disables the user's own configuration file.
        command.args(["-q", "--silent", "--show-error", "--no-buffer", "--noproxy", "*"]);
        command.args(["--max-time", &format!("{left:.3}"), "--write-out", TIMES]);
        command.args(more).arg(format!("http://{}/{}", self.server, self.name));
        command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = self.from.spawn(command, ChildEnd::Kill)?;
        child.map_err(|error| LabError::Program { program: "curl".into(), error, remedy: INSTALL_CURL })
    }
}

/// What curl writes to stderr at its end: seconds from its start to the connect() call (name look-up done) and to
/// the first byte.
const TIMES: &str = "%{stderr}\nwavelane-times %{time_namelookup} %{time_starttransfer}\n";

/// How curl ended.
struct Ended {
    status: ExitStatus,
    /// From curl's connect() to its first byte.
    connect_to_first: Option<Span>,
    said: String,
}

fn reap(mut child: Child) -> Result<Ended, LabError> {
    let mut text = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        // curl has exited or is about to, so this read ends; an unreadable stderr only loses its error message.
        let _ = stderr.read_to_string(&mut text);
    }
    let status = child.wait().map_err(LabError::io("cannot wait for curl"))?;
    let times = text.lines().find_map(|l| l.strip_prefix("wavelane-times "));
    let seconds: Vec<f64> = times.into_iter().flat_map(|t| t.split(' ')).filter_map(|s| s.parse().ok()).collect();
    let connect_to_first = match seconds[..] {
        [connect, first] if first > 0.0 => Some(Span::from_secs_f64(first - connect)),
        _ => None,
    };
    let said = text.lines().find(|l| l.starts_with("curl:")).unwrap_or("").to_owned();
    Ok(Ended { status, connect_to_first, said })
}

/// Kills curl if it exceeds its time or the run is cancelled; returns true if it was killed.
fn kill_if_due(child: &mut Child, workload: &Workload) -> bool {
    let due = workload.cancelled() || realtime::now() > workload.stop + GRACE;
    if due {
        // It may just have exited by itself.
        let _ = child.kill();
    }
    due
}

/// Runs a download to its end. The note holds curl's error message, if any.
pub(crate) fn download(
    workload: &Workload,
    size: Option<u64>,
    digest: &Digested,
) -> Result<(FlowRaw, Option<String>), LabError> {
    rest_until(workload.start, || workload.cancelled());
    let started = realtime::now();
    let mut child = workload.curl(&[], Stdio::null())?;
    let mut received = Received::of_stamped();
    let mut out = child.stdout.take().expect("stdout was asked to be a pipe");
    let mut buffer = vec![0; CHUNK];
    // Checked also while bytes arrive without a pause: a cancelled transfer must not run to completion.
    while !kill_if_due(&mut child, workload) {
        let ready = realtime::wait(&[out.as_fd()], realtime::now() + GLANCE);
        if ready.map_err(LabError::io("cannot wait for curl's output"))? {
            let len = out.read(&mut buffer).map_err(LabError::io("cannot read curl's output"))?;
            if len == 0 {
                break;
            }
            received.note(workload.epoch, realtime::now(), &buffer[..len]);
            workload.progress.store(received.octets, Ordering::Relaxed);
        }
    }
    let ended = reap(child)?;
    let expected = *digest.lock().unwrap_or_else(PoisonError::into_inner);
    let mut raw = workload.raw("download", workload.since_epoch(started));
    if let (Some(first), Some(span)) = (received.first_ns, ended.connect_to_first) {
        // By that time curl had received the first bytes that it wrote.
        raw.connect_ns = raw.connect_ns.max(first.saturating_sub(span.as_nanos()));
    }
    Ok(conclude(raw, size, &received, &ended, expected, true))
}

/// Runs an upload to its end; `upload` is the server's view of it.
pub(crate) fn upload(
    workload: &Workload,
    size: Option<u64>,
    content: Content,
    upload: &Upload,
) -> Result<(FlowRaw, Option<String>), LabError> {
    rest_until(workload.start, || workload.cancelled());
    let digest = content.digest();
    let started = realtime::now();
    // An empty "Expect" header avoids the round trip for "100 Continue"; "-T -" reads the body from stdin.
    let mut child = workload.curl(&["--header", "Expect:", "--upload-file", "-"], Stdio::piped())?;
    let mut stdin = child.stdin.take().expect("stdin was asked to be a pipe");
    let feeding = std::thread::Builder::new().name("feed-curl".into()).spawn(move || {
        let mut content = content;
        let mut buffer = vec![0; CHUNK];
        // Ends when the body is complete or curl has exited (EPIPE).
        while let Ok(len) = content.read(&mut buffer) {
            if len == 0 || stdin.write_all(&buffer[..len]).is_err() {
                break;
            }
        }
    });
    let feeding = feeding.map_err(LabError::io("cannot start a thread to feed curl"))?;
    let mut next = realtime::now();
    while child.try_wait().map_err(LabError::io("cannot wait for curl"))?.is_none() {
        let octets = upload.received.lock().unwrap_or_else(PoisonError::into_inner).octets;
        workload.progress.store(octets, Ordering::Relaxed);
        if kill_if_due(&mut child, workload) {
            break;
        }
        next += GLANCE;
        rest_until(next, || workload.cancelled());
    }
    let ended = reap(child)?;
    // The pipe is closed now, so the feeding thread ends.
    let _ = feeding.join();
    let received = upload.received.lock().unwrap_or_else(PoisonError::into_inner);
    let expected = *digest.lock().unwrap_or_else(PoisonError::into_inner);
    let orderly = upload.ended.load(Ordering::Acquire);
    let raw = workload.raw("upload", workload.since_epoch(started));
    Ok(conclude(raw, size, &received, &ended, expected, orderly))
}

fn conclude(
    mut raw: FlowRaw,
    size: Option<u64>,
    received: &Received,
    ended: &Ended,
    expected: Option<[u8; 32]>,
    orderly: bool,
) -> (FlowRaw, Option<String>) {
    raw.first_byte_ns = received.first_ns;
    raw.last_byte_ns = received.last_ns;
    raw.octets = received.octets;
    raw.arrivals = received.arrivals.clone();
    raw.ages = received.ages.clone();
    match size {
        Some(size) => {
            raw.completed = ended.status.success() && orderly && received.octets == size;
            raw.intact = raw.completed.then(|| expected == Some(received.hash()));
        }
        None => raw.completed = ended.status.code() == Some(CURL_TIMED_OUT) && received.octets > 0,
    }
    let note = (!ended.said.is_empty() && !raw.completed).then(|| format!("flow {}: {}", raw.flow, ended.said));
    (raw, note)
}
