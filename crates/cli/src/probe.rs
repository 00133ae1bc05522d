//! `wavelane probe` and `wavelane probe serve`.

use crate::probe_record::{PROBES, keep, rerun, rerun_http};
use crate::probe_screen::{Screen, give_back};
use crate::record_place::{Place, place};
use crate::{EXIT_INCONCLUSIVE, EXIT_INTERRUPTED, Failure, Outcome, interrupt, print};
use clap::{Args, Subcommand, ValueEnum};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use wavelane_probe::document::ProbeDocument;
use wavelane_probe::limits::Limits;
use wavelane_probe::names::look_up;
use wavelane_probe::nq::{self, HttpPlan, Trust};
use wavelane_probe::plan::{Length, Measurement, Plan, StageKind, milliseconds, seconds};
use wavelane_probe::{ProbeError, drive, figures, load_allowed, packet, serve};

const EXAMPLES: &str = include_str!("examples/probe.txt");

/// Arguments of `wavelane probe`.
#[derive(Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct ProbeArgs {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    measure: MeasureArgs,
}

#[derive(Subcommand)]
enum Verb {
    /// Answer probes of others: UDP and TCP on one port.
    Serve(ServeArgs),
}

#[derive(Args)]
struct ServeArgs {
    /// Where to listen.
    #[arg(long, value_name = "ADDR:PORT", default_value_t = SocketAddr::from(([0u16; 8], serve::PORT)))]
    listen: SocketAddr,
    /// Measurements at once.
    #[arg(long, value_name = "N", default_value_t = Limits::default().sessions as u16, value_parser = clap::value_parser!(u16).range(1..))]
    sessions: u16,
    /// Seconds of one measurement at the most.
    #[arg(long, value_name = "N", default_value_t = Limits::default().session_seconds, value_parser = clap::value_parser!(u16).range(1..))]
    session_seconds: u16,
    /// Seconds of measurements that one address gets in an hour.
    #[arg(long, value_name = "N", default_value_t = Limits::default().hour_seconds)]
    hour_seconds: u64,
    /// Bytes of load that one address gets in an hour.
    #[arg(long, value_name = "N", default_value_t = Limits::default().hour_bytes)]
    hour_bytes: u64,
    /// Also answer HTTPS (networkQuality), with this certificate: a PEM file, the server's own certificate first.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The certificate's private key, a PEM file.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
}

/// Whose rules the server answers by.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Against {
    /// 'wavelane probe serve', by its own protocol.
    Wavelane,
    /// An HTTP server of Apple networkQuality's kind; TARGET is its URL, or a host.
    Networkquality,
}

#[derive(Args)]
struct MeasureArgs {
    /// The machine where 'wavelane probe serve' runs: HOST or HOST:PORT. With --against networkquality a URL.
    #[arg(value_name = "TARGET", required = true)]
    target: Option<String>,
    /// What kind of server TARGET is.
    #[arg(long, value_enum, value_name = "KIND", default_value = "wavelane")]
    against: Against,
    /// Which loads to try, in order.
    #[arg(long, value_delimiter = ',', value_parser = ["down", "up", "both"], default_values = ["down", "up", "both"])]
    phases: Vec<String>,
    /// Seconds of each load.
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = clap::value_parser!(u16).range(1..=600))]
    seconds: u16,
    /// Seconds without load before the first and after the last.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=600))]
    idle_seconds: u16,
    /// TCP connections each way; they begin half a second after each other.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=8))]
    streams: u8,
    /// Congestion control at both ends [default: cubic, where the system lets us choose].
    #[arg(long, value_name = "NAME")]
    congestion: Option<String>,
    /// Milliseconds from one UDP probe to the next.
    #[arg(long, value_name = "MS", default_value_t = INTERVAL_MS, value_parser = clap::value_parser!(u16).range(2..=1000))]
    interval: u16,
    /// Octets of a probe's UDP payload.
    #[arg(long, value_name = "N", default_value_t = packet::PROBE_MIN as u16,
          value_parser = clap::value_parser!(u16).range(packet::PROBE_MIN as i64..=packet::PROBE_MAX as i64))]
    size: u16,
    /// Also probe with these differentiated-services code points, such as 46 (EF) or 8 (CS1).
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u8).range(1..=63), num_args = 1)]
    dscp: Vec<u8>,
    /// A nearer machine with 'wavelane probe serve', such as one cabled to your router: it is probed at the same time, without
    /// load, and tells on which side of it the queue is.
    #[arg(long, value_name = "HOST[:PORT]")]
    vantage: Option<String>,
    /// Do not look for the hop that holds the queue.
    #[arg(long)]
    no_hops: bool,
    /// With --against networkquality: know the server by the certificates in this PEM file alone, instead of by those that the system
    /// trusts. They are certificate authorities, or the server's own certificate, which may be self-signed.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// The record's directory; an earlier record there is replaced.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print one JSON document on standard output, and nothing else.
    #[arg(long)]
    json: bool,
}

/// Between UDP probes.
const INTERVAL_MS: u16 = 10;
/// Code points beside the default.
const DSCPS_MAX: usize = 4;

/// Measures or serves.
pub(crate) fn probe(args: &ProbeArgs) -> Outcome {
    match &args.verb {
        Some(Verb::Serve(args)) => serve_probes(args),
        None => measure(&args.measure),
    }
}

fn failure(why: &ProbeError) -> Failure {
    match why {
        ProbeError::Interrupted => Failure::interrupted(why),
        _ => Failure::refused(why),
    }
}

fn serve_probes(args: &ServeArgs) -> Outcome {
    let stop = interrupt::flag()?;
    let limits = Limits {
        sessions: args.sessions.into(),
        session_seconds: args.session_seconds,
        hour_seconds: args.hour_seconds,
        hour_bytes: args.hour_bytes,
        ..Limits::default()
    };
    let certificate = match (&args.tls_cert, &args.tls_key) {
        (Some(chain), Some(key)) => Some(serve::Certificate::read(chain, key).map_err(Failure::refused)?),
        _ => None,
    };
    let web = if certificate.is_some() { "http and https" } else { "http" };
    let tell = |news: serve::News| match news {
        serve::News::Ready(at) => {
            say!("probe server on {at}, UDP and TCP, and networkQuality's by {web}; end it with Ctrl-C");
        }
        serve::News::Refused(sums) => say!("{}", refusals(&sums)),
        serve::News::SocketFull(sum) => say!("{}", dropped(sum)),
    };
    serve::serve(args.listen, limits, certificate, Arc::clone(&stop), tell).map_err(|why| failure(&why))?;
    Ok(EXIT_INTERRUPTED)
}

/// What was refused since the start, and the remedy where there is one.
fn refusals(sums: &serve::Drops) -> String {
    let mut text = format!(
        "refused since the start: {} connections without a place, {} that gave way before they said what they want, {} requests \
         beyond their address's rate",
        sums.no_place, sums.gave_way, sums.requests
    );
    if sums.pauses > 0 {
        text += &format!(
            "; {} pauses for want of file descriptors: raise the limit (ulimit -Hn, or LimitNOFILE= in a systemd unit)",
            sums.pauses
        );
    }
    text
}

/// What the socket dropped since the start, whose loss that is, and the remedy.
fn dropped(sum: u64) -> String {
    format!(
        "dropped since the start: {sum} datagrams by this machine's own socket, which was full (or their checksum wrong); clients \
         count them as lost on the way, but the network delivered them: give the server more processor time, or raise \
         net.core.rmem_max and start it again"
    )
}

/// HOST, HOST:PORT, or an address of either IP version.
pub(crate) fn resolve(target: &str, stop: &AtomicBool) -> Result<SocketAddr, Failure> {
    if let Ok(ip) = target.trim_matches(['[', ']']).parse::<IpAddr>() {
        return Ok((ip, serve::PORT).into());
    }
    let named = target.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)));
    let (host, port) = named.unwrap_or((target, serve::PORT));
    let found = look_up(host.trim_matches(['[', ']']), port, stop).map_err(|why| match why.kind() {
        ErrorKind::Interrupted => failure(&ProbeError::Interrupted),
        _ => Failure::refused(format!("cannot find '{target}': {why}; name a host, an address, or HOST:PORT")),
    })?;
    found.first().copied().ok_or_else(|| Failure::refused(format!("cannot find '{target}': it has no address")))
}

fn stages(args: &MeasureArgs) -> Result<Vec<(StageKind, Length)>, Failure> {
    let idle = seconds(args.idle_seconds.into());
    let mut stages = vec![(StageKind::Idle, idle)];
    for (i, word) in args.phases.iter().enumerate() {
        if i > 0 {
            stages.push((StageKind::Rest, seconds(REST_S)));
        }
        let kind = [StageKind::Down, StageKind::Up, StageKind::Both].into_iter().find(|kind| kind.word() == word);
        let kind = kind.ok_or_else(|| Failure::refused(format!("no phase '{word}'")))?;
        if stages.iter().any(|(known, _)| *known == kind) {
            return Err(Failure::refused(format!("--phases names '{word}' twice: name each once")));
        }
        stages.push((kind, seconds(args.seconds.into())));
    }
    stages.extend([(StageKind::Rest, seconds(REST_S)), (StageKind::After, idle)]);
    Ok(stages)
}

fn congestion(args: &MeasureArgs) -> Result<String, Failure> {
    Ok(match &args.congestion {
        Some(name) => {
            load_allowed(name).map_err(|why| {
                Failure::refused(format!(
                    "cannot use congestion control '{name}': {why}; see net.ipv4.tcp_allowed_congestion_control, or run as root"
                ))
            })?;
            name.clone()
        }
        None if load_allowed(CONGESTION).is_ok() => CONGESTION.to_owned(),
        None => String::new(),
    })
}

fn vantage(args: &MeasureArgs, stop: &AtomicBool) -> Result<Option<(String, SocketAddr)>, Failure> {
    args.vantage.as_ref().map(|name| Ok((name.clone(), resolve(name, stop)?))).transpose()
}

fn plan(args: &MeasureArgs, target: &str, stop: &AtomicBool) -> Result<Plan, Failure> {
    if args.dscp.len() > DSCPS_MAX {
        return Err(Failure::refused(format!("--dscp takes at most {DSCPS_MAX} code points")));
    }
    Ok(Plan {
        target: resolve(target, stop)?,
        stages: stages(args)?,
        interval: milliseconds(args.interval.into()),
        size: args.size.into(),
        dscps: args.dscp.iter().copied().collect::<BTreeSet<u8>>().into_iter().collect(),
        congestion: congestion(args)?,
        streams: args.streams.into(),
        ramp: milliseconds(RAMP_MS),
        hops: !args.no_hops,
        vantage: vantage(args, stop)?,
    })
}

/// What most of the Internet sends with.
const CONGESTION: &str = "cubic";
/// Until queues of a second are empty.
const REST_S: u64 = 2;
/// Between the begin of one connection and the next.
const RAMP_MS: u64 = 500;

fn measure(args: &MeasureArgs) -> Outcome {
    let target = args.target.clone().unwrap_or_default();
    let (rerun, measured, place) = match args.against {
        Against::Wavelane => by_datagrams(args, &target)?,
        Against::Networkquality => by_http(args, &target)?,
    };
    let mut document = figures::document(&target, &measured);
    let kept = keep(&mut document, &measured, &rerun, &place);
    // Figures are printed even if the record cannot be written.
    let told = print(&if args.json { document.to_json() } else { summary(&document) });
    kept?;
    told?;
    if measured.interrupted {
        return Ok(EXIT_INTERRUPTED);
    }
    let void = document.phases.iter().filter(|p| p.is_void()).map(|p| p.phase).collect::<Vec<_>>();
    if void.is_empty() {
        return Ok(0);
    }
    say!("wavelane: no load {}: nothing was measured there (the notes say why)", void.join(", "));
    Ok(EXIT_INCONCLUSIVE)
}

/// Measures our own server: the command that repeats it, what was seen, and the record's place.
fn by_datagrams(args: &MeasureArgs, target: &str) -> Result<(String, Measurement, Place), Failure> {
    if target.starts_with("http://") || target.starts_with("https://") {
        let why = format!("'{target}' is a URL: for a server of networkQuality's kind write --against networkquality");
        return Err(Failure::refused(why + "; for 'wavelane probe serve' name its host alone"));
    }
    if args.ca.is_some() {
        return Err(Failure::refused("--ca is of HTTPS servers: write --against networkquality too, or leave it out"));
    }
    let stop = interrupt::flag_before(give_back)?;
    let plan = plan(args, target, &stop)?;
    let place = place(target, args.out.as_deref(), &PROBES)?;
    let mut screen = Screen::open(target, plan.length());
    let measured = drive::measure(&plan, &stop, &mut |view| screen.show(view));
    screen.close();
    Ok((rerun(target, &plan), measured.map_err(|why| failure(&why))?, place))
}

/// The same over HTTP.
fn by_http(args: &MeasureArgs, target: &str) -> Result<(String, Measurement, Place), Failure> {
    let of_datagrams = [
        (!args.dscp.is_empty(), "--dscp"),
        (args.interval != INTERVAL_MS, "--interval"),
        (args.size != packet::PROBE_MIN as u16, "--size"),
    ];
    if let Some((_, name)) = of_datagrams.iter().find(|(given, _)| *given) {
        let why = format!("{name} is of UDP probes, which an HTTP server does not answer: leave it out");
        return Err(Failure::refused(why));
    }
    let trust = args.ca.as_deref().map_or(Ok(Trust::System), Trust::read).map_err(Failure::refused)?;
    let stop = interrupt::flag_before(give_back)?;
    let plan = HttpPlan {
        url: target.to_owned(),
        stages: stages(args)?,
        congestion: congestion(args)?,
        streams: args.streams.into(),
        ramp: milliseconds(RAMP_MS),
        hops: !args.no_hops,
        vantage: vantage(args, &stop)?,
        trust,
    };
    let place = place(target, args.out.as_deref(), &PROBES)?;
    let mut screen = Screen::open(target, plan.length());
    let measured = nq::measure(&plan, &stop, &mut |view| screen.show(view));
    screen.close();
    Ok((rerun_http(target, &plan, args.ca.as_deref()), measured.map_err(|why| failure(&why))?, place))
}

/// Ctrl-C's flag for [`measured`], which uses the terminal. One for all measurements of a command: whoever watches anew misses the
/// Ctrl-C between them, and the next one would be taken for the second.
pub(crate) fn watch() -> Result<Arc<AtomicBool>, Failure> {
    interrupt::flag_before(give_back)
}

/// Measures idle and `phases` until `stop` is set, and keeps no record.
pub(crate) fn measured(
    target: &str,
    phases: &[&str],
    seconds: u16,
    stop: &AtomicBool,
) -> Result<ProbeDocument, Failure> {
    let args = MeasureArgs {
        target: Some(target.to_owned()),
        against: Against::Wavelane,
        phases: phases.iter().map(|phase| (*phase).to_owned()).collect(),
        seconds,
        idle_seconds: CURE_IDLE_S,
        streams: 4,
        congestion: None,
        interval: INTERVAL_MS,
        size: packet::PROBE_MIN as u16,
        dscp: Vec::new(),
        vantage: None,
        no_hops: true,
        ca: None,
        out: None,
        json: false,
    };
    let plan = plan(&args, target, stop)?;
    let mut screen = Screen::open(target, plan.length());
    let measured = drive::measure(&plan, stop, &mut |view| screen.show(view));
    screen.close();
    let measured = measured.map_err(|why| failure(&why))?;
    if measured.interrupted {
        return Err(Failure::interrupted(ProbeError::Interrupted));
    }
    Ok(figures::document(target, &measured))
}

/// Without load, before and after, where only the rise is wanted.
const CURE_IDLE_S: u16 = 3;

fn summary(document: &ProbeDocument) -> String {
    let mut text = crate::probe_record::phase_table(document);
    text.push('\n');
    for explained in &document.explained {
        text.push_str(&explained.sentence);
        text.push('\n');
    }
    match document.record.as_str() {
        "" => text,
        record => text + &format!("\nreport {record}/report.html\n"),
    }
}
