//! The pages in a browser: on a telephone nothing makes the page wider than its screen, on a desk no table is wider than the page, and
//! in dark mode it is dark.

use crate::common::{EASY, Place, scenarios, wavelane as command};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A telephone's screen, in the browser's pixels.
const NARROW: u32 = 400;
/// A window on a desk.
const WIDE: u32 = 1200;

fn wavelane(args: &[&str]) {
    let o = command(args);
    assert!(o.status.success(), "{args:?}: {}", String::from_utf8_lossy(&o.stderr));
}

/// The page's document after its scripts have run.
fn browser(page: &Path, place: &Place, dark: bool) -> std::io::Result<Output> {
    Command::new("chromium")
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            "--window-size=1280,900",
        ])
        .args(["--virtual-time-budget=3000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", place.0.join("browser").display()))
        .arg(format!("--blink-settings=preferredColorScheme={}", if dark { 0 } else { 1 }))
        .arg(format!("file://{}", page.display()))
        .stdin(Stdio::null())
        .output()
}

/// Tells the page that holds this one how wide it is laid out, how wide its content is, its colours' lightness, and by how much a table
/// is wider than what shows of it.
const TELL: &str = "<script>addEventListener('load', () => {
const light = (name) => getComputedStyle(document.body)[name].match(/[\\d.]+/g).slice(0, 3).reduce((a, b) => a + +b, 0) / 765;
const hidden = [...document.querySelectorAll('.t')].map((t) => t.scrollWidth - t.clientWidth);
parent.postMessage([innerWidth, document.documentElement.scrollWidth, light('backgroundColor'), light('color'), Math.max(0, ...hidden)], '*');
});</script>";

/// Shows what came from each frame, in the order of the frames.
const LISTEN: &str = "<script>addEventListener('message', (m) => {
for (const frame of document.querySelectorAll('iframe'))
if (frame.contentWindow === m.source) frame.dataset.told = m.data.join(' ');
});</script>";

#[test]
fn pages_fit_their_screens_and_are_dark_when_asked() {
    let place = Place::new("all");
    let path = |name: &str| place.path(name);
    let file = |name: &str| scenarios().join(name).display().to_string();
    let (run, hop, radio) = (path("run"), file("smoke/one_hop.toml"), file("wifi/categories.toml"));
    wavelane(&["run", &hop, "--repeat", "3", "--out", &run]);
    wavelane(&["run", &radio, "--out", &path("radio")]);
    wavelane(&["compare", &run, &run, "--out", &path("compare")]);
    let rates = "air.forward.rate=5 Mbit/s,10 Mbit/s";
    wavelane(&[&["sweep", &hop, "--sweep", rates, "--repeat", "2", "--out", &path("sweep")][..], &EASY].concat());
    wavelane(&["study", "run", "hop-swarm", "--draws", "1..2", "--out", &path("study")]);
    // A path is longer than a telephone's line.
    let result = path("a-result-of-iperf3-whose-name-is-longer-than-a-line-of-a-telephone.json");
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testing/formats/iperf3.json");
    std::fs::copy(sample, &result).unwrap();
    wavelane(&["import", &result, "--out", &path("import")]);
    let names = ["run", "radio", "compare", "sweep", "study", "import"];
    let mut all = LISTEN.to_owned();
    for name in names {
        let page = std::fs::read_to_string(place.0.join(name).join("report.html")).unwrap();
        std::fs::write(place.0.join(format!("{name}.html")), page.replace("</body>", &format!("{TELL}</body>")))
            .unwrap();
        for width in [NARROW, WIDE] {
            all += &format!("<iframe width={width} height=800 src={name}.html></iframe>");
        }
    }
    std::fs::write(place.0.join("all.html"), all).unwrap();
    for dark in [false, true] {
        let Ok(o) = browser(&place.0.join("all.html"), &place, dark) else {
            eprintln!("SKIPPED (chromium is missing: apt-get install chromium): the pages in a browser");
            return;
        };
        let shown = String::from_utf8_lossy(&o.stdout).into_owned();
        let told: Vec<Vec<f64>> = shown
            .split("data-told=\"")
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap().split(' ').map(|n| n.parse().unwrap()).collect())
            .collect();
        assert_eq!(told.len(), 2 * names.len(), "{shown}\n{}", String::from_utf8_lossy(&o.stderr));
        let frames = names.iter().flat_map(|name| [(name, NARROW), (name, WIDE)]);
        for ((name, screen), told) in frames.zip(told) {
            let [width, content, ground, text, hidden] = told[..] else { panic!("{name}: {told:?}") };
            assert_eq!((width, content), (f64::from(screen), f64::from(screen)), "{name} is wider than its screen");
            // A study's rows are lines of text there, so that no value is off the screen.
            let may_scroll = screen == NARROW && *name != "study";
            assert!(may_scroll || hidden == 0.0, "{name}: {hidden} pixels of a table are off the page");
            let (dark_side, light_side) = if dark { (ground, text) } else { (text, ground) };
            assert!(dark_side < 0.3 && light_side > 0.7, "{name}, dark {dark}: ground {ground}, text {text}");
        }
    }
}
