//! What a program wrote before it reset its connection, or closed it with input unread, arrives before the reset.

use crate::common::*;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;
use wavelane_host::netns::ChildEnd;

const INTERCEPT: &str = "interfaces = [\"lan0\"]";
/// Connections per case. Without care nearly every one loses its last bytes, so that none may.
const ROUNDS: usize = 10;
/// Bytes that leave at once: ten segments (RFC 6928), with room for headers.
const FIRST_WINDOW: usize = 14_000;

/// Reads until the end or an error; returns what came and which it was.
fn read_all(stream: &mut TcpStream) -> (Vec<u8>, Option<ErrorKind>) {
    let (mut got, mut buf) = (Vec::new(), [0; 16_384]);
    loop {
        match stream.read(&mut buf) {
            Ok(0) => return (got, None),
            Ok(n) => got.extend_from_slice(&buf[..n]),
            Err(e) => return (got, Some(e.kind())),
        }
    }
}

/// A client uploads; the server reads a little, answers with `answer` bytes and closes with input unread.
fn early_answers(world: &World, port: u16, answer: usize) {
    let body = pattern(answer, 3);
    let copy = body.clone();
    world.serve(port, move |mut stream, _| {
        stream.read_exact(&mut [0; 100]).unwrap();
        // By now more has come than was read; a close with input unread resets.
        while stream.peek(&mut [0; 4096]).unwrap() < 4096 {}
        stream.write_all(&copy).unwrap();
        // What the kernel has not sent when the program closes it drops, and no gateway ever sees.
        wait_for("the kernel to send", || {
            copy.len() <= FIRST_WINDOW || wavelane_host::tcp::undelivered(&stream).is_none()
        });
    });
    for round in 0..ROUNDS {
        let mut stream = world.connect(&world.client, &format!("10.3.0.2:{port}")).unwrap();
        let mut upload = stream.try_clone().unwrap();
        let writer = std::thread::spawn(move || while upload.write_all(&[7; 4096]).is_ok() {});
        let (got, error) = read_all(&mut stream);
        writer.join().unwrap();
        assert!(got == body, "round {round}: {} of {} bytes came, then {error:?}", got.len(), body.len());
        // Linux gives the error to whoever asks first, which may have been the writer.
        assert!(error.is_none_or(|e| e == ErrorKind::ConnectionReset), "{error:?}");
    }
}

#[test]
fn an_early_answer_arrives_before_the_reset_that_follows_it() {
    let _alone = alone();
    if !root_or_skip("an_early_answer") {
        return;
    }
    let world = World::new("early");
    let (a, b) = world.start_both("source = \"keep\"", INTERCEPT);
    early_answers(&world, 80, 200);
    early_answers(&world, 81, FIRST_WINDOW);
    early_answers(&world, 82, 60_000);
    wait_for("both ends to forget", || a.status().flows == 0 && b.status().flows == 0);
}

#[test]
fn a_clients_last_bytes_arrive_before_its_reset() {
    let _alone = alone();
    if !root_or_skip("a_clients_last_bytes") {
        return;
    }
    let world = World::new("bye");
    let (a, b) = world.start_both("source = \"keep\"", INTERCEPT);
    let (tell, told) = channel();
    world.serve(80, move |mut stream, _| {
        stream.write_all(b"a banner that nobody reads").unwrap();
        tell.send(read_all(&mut stream)).unwrap();
    });
    let sent = pattern(10_000, 5);
    for round in 0..ROUNDS {
        let mut stream = world.connect(&world.client, "10.3.0.2:80").unwrap();
        stream.peek(&mut [0]).unwrap();
        // All of it leaves before the close drops what did not.
        stream.write_all(&sent).unwrap();
        drop(stream);
        let (got, error) = told.recv_timeout(PATIENCE).unwrap();
        assert!(got == sent, "round {round}: {} of {} bytes came, then {error:?}", got.len(), sent.len());
        assert_eq!(error, Some(ErrorKind::ConnectionReset), "no stream ends as if it were complete");
    }
    wait_for("both ends to forget", || a.status().flows == 0 && b.status().flows == 0);
}

#[test]
fn a_stalled_client_times_out() {
    let _alone = alone();
    if !root_or_skip("a_client_that_takes_nothing") {
        return;
    }
    let world = World::new("stuck");
    let (a, b) = world.start_both("source = \"keep\"", INTERCEPT);
    // More than all buffers on the way hold, so that some waits here when the server resets.
    world.serve(80, move |mut stream, _| {
        stream.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
        let _ = stream.write_all(&pattern(30_000_000, 9));
    });
    let mut stream = world.connect(&world.client, "10.3.0.2:80").unwrap();
    stream.write_all(b"x").unwrap();
    let asked = now();
    while b.status().flows > 0 || a.status().flows > 0 {
        assert!(asked.elapsed() < Duration::from_secs(40), "{}{}", a.status(), b.status());
        pause(Duration::from_millis(200));
    }
    let (got, error) = read_all(&mut stream);
    assert!(got.len() > 100_000, "{}", got.len());
    assert_eq!(error, Some(ErrorKind::ConnectionReset));
}

/// curl uploads to a server that does not take uploads (501), as Python's own HTTP server answers.
#[test]
fn curl_gets_the_501_of_a_server_that_does_not_read_on() {
    let _alone = alone();
    let test = "curl_gets_the_501";
    if !root_or_skip(test) {
        return;
    }
    if ["curl", "python3"].iter().any(|tool| Command::new(tool).arg("--version").output().is_err()) {
        return eprintln!("SKIPPED (1 test): {test} needs curl and python3: apt-get install curl python3");
    }
    let world = World::new("curl501");
    let (_a, _b) = world.start_both("source = \"keep\"", INTERCEPT);
    let mut command = Command::new("python3");
    command.args(["-m", "http.server", "8000", "--bind", "10.3.0.2"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut server = world.server.spawn(command, ChildEnd::Kill).unwrap().unwrap();
    wait_for("the server to listen", || world.sh(&world.server, "ss -ltn").contains(":8000 "));
    let file = world.dir.join("upload");
    std::fs::write(&file, pattern(5_000_000, 1)).unwrap();
    let upload = format!(
        "curl -s -o /dev/null -w '%{{http_code}}' -H 'Expect:' -m 10 -T {} http://10.3.0.2:8000/x || true",
        file.display()
    );
    let codes: Vec<String> = (0..ROUNDS).map(|_| world.sh(&world.client, &upload)).collect();
    let _ = server.kill();
    let _ = server.wait();
    assert_eq!(codes, vec!["501"; ROUNDS]);
}
