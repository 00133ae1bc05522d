#![allow(clippy::unwrap_used, reason = "tests")]
use super::*;
use std::sync::atomic::AtomicBool;
use wavelane_base::Seed;
use wavelane_run::{
    Backend, BackendError, FlowRaw, Probe, Review, RunContext, RunHooks, RunOptions, Spent, StackRaw, Treatment,
};
use wavelane_scenario::Stack;

/// Curves of a plausible shape: `wavelane` fast and calm, `tcp-cubic` slow and unfinished with losses.
struct Shapes;

/// The link was dead: nothing arrived and no question was answered.
struct Silence;

impl Backend for Silence {
    fn name(&self) -> &'static str {
        "silence"
    }
    fn review(&self, _: &Scenario) -> Review {
        Review::default()
    }
    fn run_stack(
        &mut self,
        scenario: &Scenario,
        stack: Stack,
        seed: Seed,
        context: &mut RunContext<'_>,
    ) -> Result<StackRaw, BackendError> {
        let mut raw = Shapes.run_stack(scenario, stack, seed, context)?;
        for flow in &mut raw.flows {
            flow.first_byte_ns = None;
            flow.last_byte_ns = None;
            flow.octets = 0;
            flow.completed = false;
            flow.intact = None;
            flow.arrivals.clear();
            flow.probes.iter_mut().for_each(|p| p.rtt_ns = None);
        }
        Ok(raw)
    }
}

impl Backend for Shapes {
    fn name(&self) -> &'static str {
        "shapes"
    }
    fn review(&self, _: &Scenario) -> Review {
        let mut review = Review::default();
        review.clause("channels.air.forward.loss", Treatment::Approximated("<rounded> & \"cut\"".into()));
        review
    }
    fn run_stack(
        &mut self,
        scenario: &Scenario,
        stack: Stack,
        seed: Seed,
        _: &mut RunContext<'_>,
    ) -> Result<StackRaw, BackendError> {
        let mut dice = seed.chance(stack.word());
        let (rate, base, done) = match stack.word() {
            "wavelane" => (2_200_000, 110, true),
            "tcp-bbr" => (1_900_000, 240, true),
            _ => (90_000, 105, false),
        };
        let mut arrivals = Vec::new();
        let mut octets = 0;
        for ms in (200u64..45_000).step_by(20) {
            let n = (rate / 50 + dice.below(rate / 100)).min(20_000_000 - octets);
            if n > 0 && dice.below(20) > 0 {
                octets += n;
                arrivals.push((ms * 1_000_000, n));
            }
        }
        let last = arrivals.last().unwrap().0;
        let probes = (0..450u64)
            .map(|i| Probe {
                sent_ns: i * 100_000_000,
                rtt_ns: (dice.below(40) > 0 || done)
                    .then(|| (base + dice.below(60) * dice.below(base) / 8) * 1_000_000),
            })
            .filter(|p| !done || p.sent_ns < last);
        let flow = |f: &wavelane_scenario::Flow, probes: Vec<Probe>| FlowRaw {
            flow: f.name.clone(),
            app: f.app.word(),
            connect_ns: 50_000_000,
            first_byte_ns: Some(200_000_000),
            last_byte_ns: Some(last),
            completed: done,
            intact: done.then_some(true),
            octets,
            arrivals: if f.app.is_bulk() { arrivals.clone() } else { vec![] },
            probes: if f.app.is_bulk() { vec![] } else { probes },
            ages: vec![],
            fetches: vec![],
            given_ns: 44_950_000_000,
        };
        let probes: Vec<Probe> = probes.collect();
        let flows = scenario.flows.iter().map(|f| flow(f, probes.clone())).collect();
        Ok(StackRaw {
            stack,
            flows,
            wire_octets: octets + octets / 9,
            ways: vec![],
            repair_octets: None,
            first_octets: None,
            inconclusive: None,
            notes: vec![],
            radios: vec![],
            lines: vec![],
            spent: Spent { programs_s: None, machine_s: Some(octets as f64 * 25e-9) },
            kernels: vec![],
            packets: None,
            timeouts: None,
        })
    }
}

fn record(name: &str, repeat: u32) -> PathBuf {
    record_of(|| Box::new(Shapes), name, repeat)
}

fn record_of(make: fn() -> Box<dyn Backend>, name: &str, repeat: u32) -> PathBuf {
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/demo.toml");
    record_in(&Scenario::load(&demo).unwrap(), make, name, repeat)
}

fn record_in(scenario: &Scenario, make: fn() -> Box<dyn Backend>, name: &str, repeat: u32) -> PathBuf {
    let place = std::env::var_os("WAVELANE_KEEP_REPORT").map_or_else(std::env::temp_dir, PathBuf::from);
    let out = place.join(format!("wavelane-report-{}-{name}", std::process::id()));
    let options = RunOptions {
        captures: wavelane_run::CaptureExtent::Headers,
        name: "demo".into(),
        repeat,
        jobs: 1,
        out: out.clone(),
        rerun: "wavelane run demo.toml --seed 1".into(),
    };
    let hooks = RunHooks {
        progress: &|_| (),
        count: &|_| (),
        cancelled: &AtomicBool::new(false),
        environment: &|| serde_json::Value::Null,
        render: &|dir| render(dir).map(drop).map_err(|e| e.to_string()),
    };
    wavelane_run::run(&make, scenario, &options, &hooks).unwrap();
    out
}

fn done(out: &Path) {
    if std::env::var_os("WAVELANE_KEEP_REPORT").is_none() {
        std::fs::remove_dir_all(out).unwrap();
    }
}

#[test]
fn the_page_is_self_contained_and_complete() {
    let out = record("page", 1);
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    for part in ["wavelane run demo.toml --seed 1", "tcp-cubic", "page-faster-than-tcp", "echo p95 ms", "share of link"]
    {
        assert!(page.contains(part), "{part}");
    }
    assert_eq!(page.matches("<svg ").count(), 6, "three, each for a wide page and a narrow one");
    // Nothing is fetched and nothing runs; the only address is the SVG namespace's name.
    let addresses = page.replace("http://www.w3.org/2000/svg", "");
    for foreign in ["http:", "https:", "<script", "src=", "@import", "url("] {
        assert!(!addresses.contains(foreign), "{foreign}");
    }
    assert!(page.contains("&lt;rounded&gt; &amp; &quot;cut&quot;"), "foreign text is escaped");
    done(&out);
}

#[test]
fn pictures_exist_as_svg_and_png_with_text_in_them() {
    let out = record("plots", 1);
    for name in ["throughput", "echo_delay", "echo_cdf"] {
        let svg = std::fs::read_to_string(out.join(format!("plots/{name}.svg"))).unwrap();
        assert!(svg.contains("tcp-bbr") && !svg.contains("NaN") && !svg.contains("inf"), "{name}");
        let png = std::fs::read(out.join(format!("plots/{name}.png"))).unwrap();
        assert!(png.starts_with(b"\x89PNG"), "{name}");
        // Without a font the text would vanish: the same picture without text is much smaller.
        let mute: String = svg.lines().filter(|l| !l.starts_with("<text")).collect::<Vec<_>>().join("\n");
        let mute = raster::Rasteriser::new().png(&mute).unwrap().unwrap();
        assert!(png.len() > mute.len() + 3_000, "{name}: {} against {}", png.len(), mute.len());
    }
    done(&out);
}

#[test]
fn several_seeds_show_means_and_render_the_same_twice() {
    let out = record("seeds", 3);
    let document = RunDocument::load(&out).unwrap();
    let scenario = Scenario::load(&out.join("scenario.toml")).unwrap();
    let text = summary_text(&document, &scenario);
    assert!(text.contains('±') && text.contains("3 of 3") && text.contains("0 of 3"), "{text}");
    let costs = text.lines().filter(|l| {
        l.starts_with("cost of ") && l.ends_with(" s of the whole machine's processor time per GB delivered")
    });
    assert_eq!(costs.count(), document.stacks.len(), "{text}");
    let mut lab = document.clone();
    lab.stacks[0].cpu_s_per_gb = Some(67.5);
    let text = summary_text(&lab, &scenario);
    assert!(
        text.contains(" per GB delivered, 67.5 s of it in its programs\n"),
        "what is not the stack's is told apart: {text}"
    );
    let first = std::fs::read(out.join("report.html")).unwrap();
    render(&out).unwrap();
    assert_eq!(std::fs::read(out.join("report.html")).unwrap(), first);
    done(&out);
}

#[test]
fn radio_cells_stand_in_the_page_as_on_the_terminal() {
    let out = record("radio", 1);
    let mut document = RunDocument::load(&out).unwrap();
    let scenario = Scenario::load(&out.join("scenario.toml")).unwrap();
    let page = html::page(&document, &scenario, &[]);
    assert!(!page.contains("Radio cells, frames"), "a table without rows");
    let radio = wavelane_run::RadioFigures {
        channel: "hall".into(),
        seed: 1,
        frames_per_s: 1000.0,
        data_per_s: 432.1,
        rts_per_s: 0.0,
        ack_missing_per_s: 12.3,
        cts_missing_per_s: 0.0,
        given_up_per_s: 0.5,
        queue_full_per_s: 0.0,
        dropped_delay_per_s: None,
        categories: vec![],
        uncoded_loss: Some(0.25),
        coded_loss: Some(0.125),
        coded_share: Some(0.5),
    };
    document.stacks[0].radios.push(radio.clone());
    let of_line = |seed: u64| wavelane_run::LineFigures {
        channel: "phone".into(),
        way: "forward".into(),
        seed,
        packets: 110,
        packet_bytes: 4_400,
        full: 3,
        down: 2,
        too_long: 1,
        sent: 104,
        sent_bytes: 4_347,
        received: 90,
        bad: 17,
        noise: 21,
        overrun: 19,
    };
    document.stacks[0].lines = vec![of_line(1)];
    let text = summary_text(&document, &scenario);
    for cell in ["phone", "104", "41.8", "17", "19"] {
        assert!(text.contains(cell), "{cell} {text}");
    }
    let page = html::page(&document, &scenario, &[]);
    assert!(!page.contains("Managed queues"), "no queue of this cell is managed");
    let category = wavelane_run::CategoryFigures {
        category: "voice".into(),
        delivered_bps: 1e6,
        data_per_s: 1.0,
        ack_missing_per_s: 1.0,
        gave_way_per_s: 1.0,
        given_up_per_s: 1.0,
        queue_full_per_s: 1.0,
        dropped_delay_per_s: Some(3.7),
    };
    let dropped_delay_per_s = Some(8.9);
    let radio = wavelane_run::RadioFigures { dropped_delay_per_s, categories: vec![category], ..radio };
    document.stacks[0].radios = vec![radio];
    let (page, text) = (html::page(&document, &scenario, &[]), summary_text(&document, &scenario));
    for cell in ["hall", "432.1", "12.3", "25.00", "12.50", "50.00", "3.7", "8.9", "ACK missing/s", "lost coded %"] {
        assert!(page.contains(&format!(">{cell}</t")), "{cell}: {page}");
        assert!(text.contains(cell), "{cell}: {text}");
    }
    done(&out);
}

#[test]
fn a_single_echo_shares_the_row_of_its_bulk_flow() {
    let out = record("rows", 1);
    let mut document = RunDocument::load(&out).unwrap();
    let mut scenario = Scenario::load(&out.join("scenario.toml")).unwrap();
    let names = |table: table::Table| -> Vec<String> { table.rows.into_iter().map(|row| row[1].clone()).collect() };
    document.stacks.truncate(1);
    assert_eq!(names(summary::flows(&document, &scenario)), ["page, echo"]);
    let mut second = scenario.flows.iter().find(|f| !f.app.is_bulk()).unwrap().clone();
    let first = second.name.clone();
    second.name = "another".into();
    scenario.flows.push(second);
    let shown = names(summary::flows(&document, &scenario));
    assert_eq!(shown[1..], [first, "another".into()]);
    done(&out);
}

#[test]
fn a_directory_without_a_record_is_named() {
    let error = render(Path::new("/nonexistent")).unwrap_err().to_string();
    assert!(error.starts_with("/nonexistent/record.json: ") && error.contains("wavelane run"), "{error}");
}

#[test]
fn a_record_is_not_written_through_its_links() {
    use std::os::unix::fs::symlink;
    let out = record("links", 1);
    let (victim, elsewhere) = (out.join("victim"), out.join("elsewhere"));
    std::fs::write(&victim, "years").unwrap();
    std::fs::create_dir(&elsewhere).unwrap();
    let picture = std::fs::read_dir(out.join("plots")).unwrap().next().unwrap().unwrap().path();
    for own in [&picture, &out.join("report.html")] {
        std::fs::remove_file(own).unwrap();
        symlink(&victim, own).unwrap();
    }
    render(&out).unwrap();
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "years");
    assert!(!picture.is_symlink() && !out.join("report.html").is_symlink());
    std::fs::remove_dir_all(out.join("plots")).unwrap();
    symlink(&elsewhere, out.join("plots")).unwrap();
    let why = render(&out).unwrap_err().to_string();
    assert!(why.contains("plots: is a link") && why.contains("remove it"), "{why}");
    assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0);
    done(&out);
}

#[test]
fn a_dead_link_still_makes_a_report() {
    let out = record_of(|| Box::new(Silence), "dead", 1);
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("never answered") && !page.contains("NaN"));
    let document = RunDocument::load(&out).unwrap();
    let echo = &document.stacks[0].flows[1];
    assert_eq!((echo.lost, echo.rtt_p50_ms), (echo.sent, Some(5_000.0)));
    assert_eq!(document.stacks[0].wire_bytes_per_delivered_byte, None);
    done(&out);
}

/// Pages, a call and keystrokes beside two downloads, under one stack.
fn home() -> Scenario {
    let flow = |name: &str, app: &str| format!("[flows.{name}]\napp = \"{app}\"\nfrom = \"a\"\nto = \"b\"\n");
    let flows = [("one", "download"), ("two", "download"), ("surf", "web"), ("call", "voice"), ("keys", "telnet")];
    let flows: String = flows.iter().map(|(name, app)| flow(name, app)).collect();
    let text = format!(
        "duration = \"45 s\"\nstacks = [\"tcp-cubic\"]\n[nodes]\na = \"endpoint\"\nb = \"endpoint\"\n[channels.air]\n\
         between = [\"a\", \"b\"]\nforward = {{ rate = \"5 Mbit/s\", delay = \"20 ms\" }}\nreverse = \"same\"\n{flows}"
    );
    Scenario::parse(&text, Path::new(".")).unwrap()
}

#[test]
fn web_voice_and_telnet_have_rows_and_charts() {
    let out = record_in(&home(), || Box::new(Shapes), "people", 1);
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    let document = RunDocument::load(&out).unwrap();
    let text = summary_text(&document, &home());
    for name in ["one", "two", "keys", "surf", "call"] {
        let rows = text.lines().filter(|l| l.split_whitespace().nth(1) == Some(name)).count();
        assert_eq!(rows, 1, "{name}\n{text}");
    }
    for head in ["page p50 ms", "object mean ms", "MOS", "late %"] {
        assert!(text.contains(head) && page.contains(head), "{head}");
    }
    let delays = std::fs::read_to_string(out.join("plots/echo_delay.svg")).unwrap();
    assert!(!delays.contains("call"), "a call has no answers");
    assert!(std::fs::read_to_string(out.join("plots/call_delay.svg")).unwrap().contains("one way (ms)"));
    done(&out);
}

#[test]
fn every_flow_has_a_look_of_its_own() {
    let looks = |svg: &str| -> Vec<String> {
        let line = |l: &&str| l.starts_with("<polyline");
        svg.lines().filter(line).map(|l| l.split("stroke-linejoin").nth(1).unwrap().to_owned()).collect()
    };
    let mut scenario = home();
    for i in 0..4 {
        let flow = wavelane_scenario::Flow { name: format!("s{i}"), ..scenario.flows[0].clone() };
        scenario.flows.push(flow);
    }
    let out = record_in(&scenario, || Box::new(Shapes), "looks", 1);
    let mut found = looks(&std::fs::read_to_string(out.join("plots/throughput.svg")).unwrap());
    assert_eq!(found.len(), 6);
    found.sort();
    found.dedup();
    assert_eq!(found.len(), 6);
    done(&out);
    // One more, and they are drawn as one.
    let more = wavelane_scenario::Flow { name: "s4".into(), ..scenario.flows[0].clone() };
    scenario.flows.push(more);
    let out = record_in(&scenario, || Box::new(Shapes), "many", 1);
    let svg = std::fs::read_to_string(out.join("plots/throughput.svg")).unwrap();
    assert_eq!((looks(&svg).len(), svg.matches("<polygon").count()), (1, 1), "{svg}");
    assert!(svg.contains(">mean of 7 flows</text>"), "{svg}");
    done(&out);
    // Several stacks with several flows each.
    scenario.flows.truncate(2);
    scenario.stacks = ["tcp-cubic", "tcp-bbr", "wavelane"].map(|word| Stack::from_word(word).unwrap()).to_vec();
    let out = record_in(&scenario, || Box::new(Shapes), "stacks", 1);
    let mut found = looks(&std::fs::read_to_string(out.join("plots/throughput.svg")).unwrap());
    found.sort();
    found.dedup();
    assert_eq!(found.len(), 6);
    done(&out);
}

#[test]
fn overlaid_rates_have_one_unit() {
    // 0.72 of 5 Mbit/s is drawn in kbit/s, and without the link's rate; up to 17.6 of 20 in Mbit/s.
    let dirs = [record_in(&home(), || Box::new(Shapes), "unit-a", 1), record("unit-b", 1)];
    let slow = std::fs::read_to_string(dirs[0].join("plots/throughput.svg")).unwrap();
    assert!(slow.contains(">kbit/s, mean over ") && slow.contains("(link rate 5 Mbit/s)</text>"), "{slow}");
    let compared = |dir: &PathBuf| Compared {
        record: dir.clone(),
        document: RunDocument::load(dir).unwrap(),
        scenario: Scenario::load(&dir.join("scenario.toml")).unwrap(),
        stack: None,
    };
    for order in [[0, 1], [1, 0]] {
        let records = order.map(|i: usize| compared(&dirs[i]));
        let out = std::env::temp_dir().join(format!("wavelane-report-units-{}", std::process::id()));
        let stop = AtomicBool::new(false);
        Comparison::of(&records).render(&out, Path::new("its place"), &records, &stop).unwrap();
        let page = std::fs::read_to_string(out.join("report.html")).unwrap();
        assert!(page.contains(" --out 'its place'</pre>"), "the command that repeats it makes this page");
        let svg = std::fs::read_to_string(out.join("plots/throughput.svg")).unwrap();
        let words = svg.split("</text>").filter_map(|part| part.rsplit('>').next());
        let most = words.filter_map(|word| word.parse::<f64>().ok()).fold(0.0, f64::max);
        assert!(
            svg.contains(">Mbit/s, mean over 500 ms</text>") && !svg.contains("link rate") && most <= 45.0,
            "{svg}"
        );
        done(&out);
    }
    dirs.iter().for_each(|dir| done(dir));
}

#[test]
fn several_seeds_are_all_drawn_with_their_area() {
    let (one, three) = (record("area-1", 1), record("area-3", 3));
    for name in ["throughput", "echo_delay", "echo_cdf"] {
        let svg = |out: &Path| std::fs::read_to_string(out.join(format!("plots/{name}.svg"))).unwrap();
        assert_eq!(svg(&one).matches("fill-opacity=\"0.16\"").count(), 0, "{name}");
        assert_eq!(svg(&three).matches("fill-opacity=\"0.16\"").count(), 3, "{name}");
    }
    done(&one);
    done(&three);
}

#[test]
fn a_page_fits_narrow_screens_and_dark_mode() {
    let out = record("narrow", 1);
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("@media(max-width:640px)") && page.contains("prefers-color-scheme:dark"));
    let narrow = page.split("class=\"narrow\">").nth(1).unwrap().split("</svg>").next().unwrap().to_owned();
    assert!(narrow.contains("viewBox=\"0 0 400 "), "{}", &narrow[..200]);
    // No text leaves the picture to the right, by the widths that the font has.
    let attribute = |line: &str, name: &str| -> String {
        line.split(&format!("{name}=\"")).nth(1).unwrap().split('"').next().unwrap().to_owned()
    };
    for line in narrow.lines().filter(|l| l.starts_with("<text") && !l.contains("rotate")) {
        let (x, size) = (attribute(line, " x").parse::<f64>().unwrap(), attribute(line, "font-size"));
        let words = line.split('>').nth(1).unwrap().split('<').next().unwrap();
        let width = plot::width_of(words, size.parse().unwrap());
        let (left, right) = match attribute(line, "text-anchor").as_str() {
            "start" => (x, x + width),
            "end" => (x - width, x),
            _ => (x - width / 2.0, x + width / 2.0),
        };
        assert!(left >= -1.0 && right <= 406.0, "{left} {right}: {line}");
    }
    done(&out);
}
