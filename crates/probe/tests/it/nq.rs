//! A measurement over HTTP on loopback, and servers and clients that mean harm.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;
use wavelane_base::Span;
use wavelane_probe::limits::Limits;
use wavelane_probe::nq::{HttpPlan, Trust, measure};
use wavelane_probe::plan::StageKind;
use wavelane_probe::{figures, serve};

/// Serves on loopback while `work` runs.
fn served<T>(limits: Limits, work: impl FnOnce(SocketAddr) -> T) -> T {
    let stop = Arc::new(AtomicBool::new(false));
    let (told, ready) = channel();
    let theirs = Arc::clone(&stop);
    let server = std::thread::spawn(move || {
        let listen = "127.0.0.1:0".parse().unwrap();
        serve::serve(listen, limits, None, theirs, |news| {
            if let serve::News::Ready(at) = news {
                told.send(at).unwrap();
            }
        })
        .unwrap();
    });
    let result = work(ready.recv().unwrap());
    stop.store(true, Ordering::Relaxed);
    server.join().unwrap();
    result
}

fn plan(url: String) -> HttpPlan {
    let ms = Span::from_millis;
    HttpPlan {
        url,
        stages: vec![(StageKind::Idle, ms(1_000)), (StageKind::Down, ms(1_500)), (StageKind::Up, ms(1_500))],
        congestion: String::new(),
        streams: 2,
        ramp: ms(100),
        hops: false,
        vantage: None,
        trust: Trust::System,
    }
}

fn run(url: String) -> Result<wavelane_probe::document::ProbeDocument, String> {
    let m = measure(&plan(url), &AtomicBool::new(false), &mut |_| ()).map_err(|e| e.to_string())?;
    Ok(figures::document("nq", &m))
}

#[test]
fn our_server_is_measured_over_http() {
    let d = served(Limits::default(), |at| run(format!("http://{at}")).unwrap());
    println!("{}", d.to_json());
    assert_eq!((d.method, d.protocol), ("networkquality", "HTTP/2"), "{:?}", d.notes);
    for word in ["down", "up"] {
        let p = d.phases.iter().find(|p| p.phase == word).unwrap();
        assert!(p.goodput_bps.unwrap() > 1e6 && p.self_probes > 0 && p.rpm.is_some(), "{p:?}");
        assert!(p.foreign_p50_ms.is_some() && p.loss_up.is_none(), "{p:?}");
    }
    assert!(d.rpm.is_some() && d.grade.is_some(), "{:?}", d.notes);
}

#[test]
fn a_source_beyond_its_budget_gets_no_load() {
    let limits = Limits { hour_bytes: 100_000, ..Limits::default() };
    let d = served(limits, |at| run(format!("http://{at}")).unwrap());
    let moved: f64 = d.phases.iter().filter_map(|p| p.goodput_bps).sum();
    // A hundred kilobytes, and what was under way when they were used up.
    assert!(moved < 50e6, "{moved}");
    assert!(d.phases.iter().any(|p| p.load_failures > 0), "{d:?}");
}

#[test]
fn requests_are_limited_over_all_connections_of_a_source() {
    let limits = Limits { requests_per_second: 1, ..Limits::default() };
    served(limits, |at| {
        let request = b"GET /nq/small HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        let answers: Vec<String> = (0..10).map(|_| told(at, request)).collect();
        let of = |status: &str| answers.iter().filter(|answer| answer.starts_with(status)).count();
        // Two are saved up; a busy machine may take seconds for ten connections.
        assert!(of("HTTP/1.1 200") >= 2 && of("HTTP/1.1 429") >= 1, "{answers:?}");
    });
}

#[test]
fn questions_inside_the_load_go_on_after_one_that_failed() {
    // Ten small connections a second leave a third for questions, so that what was saved is gone after two seconds of load.
    let limits = Limits { requests_per_second: 15, ..Limits::default() };
    let ms = Span::from_millis;
    let m = served(limits, |at| {
        let stages = vec![(StageKind::Idle, ms(500)), (StageKind::Down, ms(6_000))];
        let plan = HttpPlan { stages, ..plan(format!("http://{at}")) };
        measure(&plan, &AtomicBool::new(false), &mut |_| ()).unwrap()
    });
    let stage = &m.stages[1];
    assert!(stage.unanswered.0 >= 3, "{:?}", stage.unanswered);
    let late = stage.selfs.iter().filter(|s| s.asked >= stage.from + ms(4_000)).count();
    assert!(late > 0, "none of {} came late", stage.selfs.len());
    let d = figures::document("nq", &m);
    assert_eq!(d.phases[1].self_failures, stage.unanswered.0);
    assert!(
        d.notes.iter().any(|note| note.contains("inside loaded connections failed") && note.contains("429")),
        "{d:?}"
    );
}

/// What a server answers to every connection's first octets.
fn answers(with: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let _ = stream.read(&mut [0; 2_048]);
            let _ = stream.write_all(&with);
        }
    });
    run(format!("http://{at}")).unwrap_err()
}

#[test]
fn a_captive_portal_is_reported_and_not_measured() {
    let why =
        answers(b"HTTP/1.1 302 Found\r\nLocation: http://portal.example/\x1b[2J\r\nContent-Length: 0\r\n\r\n".to_vec());
    assert!(!why.contains('\x1b'), "{why:?}");
    let why = answers(b"HTTP/1.1 302 Found\r\nLocation: http://portal.example/\r\nContent-Length: 0\r\n\r\n".to_vec());
    assert!(why.contains("302") && why.contains("portal.example") && why.contains("sign in"), "{why}");
    let why = answers(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>".to_vec());
    assert!(why.contains("web page"), "{why}");
}

#[test]
fn endless_heads_and_documents_end() {
    let head = [b"HTTP/1.1 200 OK\r\nX: ".as_slice(), &[b'x'; 1 << 20]].concat();
    assert!(answers(head).contains("cannot measure"));
    let body = [b"HTTP/1.1 200 OK\r\nContent-Length: 9999999999\r\n\r\n".as_slice(), &[b' '; 1 << 20]].concat();
    assert!(answers(body).contains("at most 65536 octets"));
}

/// Sends to the server and reads until it closes.
fn told(at: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn the_server_answers_known_paths_and_bounds_heads() {
    served(Limits::default(), |at| {
        let close = "Connection: close\r\n\r\n";
        let config = told(at, format!("GET /.well-known/nq HTTP/1.1\r\nHost: a.example:1\r\n{close}").as_bytes());
        assert!(config.starts_with("HTTP/1.1 200") && config.contains("http://a.example:1/nq/large"), "{config}");
        let evil = told(at, format!("GET /.well-known/nq HTTP/1.1\r\nHost: a\"b/\r\n{close}").as_bytes());
        assert!(evil.starts_with("HTTP/1.1 400"), "{evil}");
        assert!(told(at, format!("GET / HTTP/1.1\r\nHost: a\r\n{close}").as_bytes()).starts_with("HTTP/1.1 404"));
        let big = [b"GET / HTTP/1.1\r\nX: ".as_slice(), &[b'x'; 100_000]].concat();
        assert!(!told(at, &big).starts_with("HTTP/1.1 2"));
        // A head that never ends is closed by the clock.
        assert!(!told(at, b"GET / HTTP/1.1\r\nX:").starts_with("HTTP/1.1 2"));
    });
}
