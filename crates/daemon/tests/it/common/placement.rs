//! What the tests of a proxy's placements share: servers, and what crosses to them.

use super::{PATIENCE, World, echo, pattern, there_and_back};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc::{Receiver, channel};
use wavelane_host::netns::Netns;

/// At the server, whose port 81 refuses.
pub struct Servers(Receiver<SocketAddr>);

impl Servers {
    /// An echo at port 7; at 80 all goes back at the client's end, and whose it was is told; at 9 datagrams come back.
    pub fn start(world: &World) -> Self {
        let (tell, told) = channel();
        world.serve(7, echo);
        world.serve(80, move |mut stream, from| {
            let mut got = Vec::new();
            stream.read_to_end(&mut got).unwrap();
            stream.write_all(&got).unwrap();
            tell.send(from).unwrap();
        });
        let datagrams = world.server.run(|| UdpSocket::bind("10.3.0.2:9").unwrap()).unwrap();
        std::thread::spawn(move || {
            let mut buffer = [0; 9_000];
            while let Ok((n, from)) = datagrams.recv_from(&mut buffer) {
                let _ = datagrams.send_to(&buffer[..n], from);
            }
        });
        Self(told)
    }
    /// Has the client send two megabytes to a server's address and read them again. The server saw its address and port; returns the first.
    pub fn there_and_back(&self, world: &World, at: &str) -> String {
        let stream = world.connect(&world.client, &format!("{at}:80")).unwrap();
        let own = stream.local_addr().unwrap();
        let sent = pattern(2_000_000, 5);
        let got = there_and_back(stream, &sent);
        assert!(got == sent, "{} bytes", got.len());
        assert_eq!(self.0.recv_timeout(PATIENCE).unwrap(), own, "address and port are kept");
        let error = world.connect(&world.client, &format!("{at}:81")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{error}");
        own.ip().to_string()
    }
}

/// What of a datagram of so many octets comes back.
pub fn datagram(ns: &Netns, octets: usize) -> Option<usize> {
    let socket = ns.run(|| UdpSocket::bind("0.0.0.0:0").unwrap()).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.send_to(&vec![7; octets], "10.3.0.2:9").ok()?;
    socket.recv(&mut [0; 9_000]).ok()
}
