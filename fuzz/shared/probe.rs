//! A hostile client at a probe server, a hostile server at a probe client, and either inside a connection of load. Each piece
//! of 96 octets is a wait in milliseconds, whom it goes to, and a datagram or octets, into which what was learnt is put.

use wavelane_base::{Entropy, FrameMeta, Instant, Machine, PortId, Seed, Span};
use wavelane_probe::client::{Client, ClientEvent, Pace};
use wavelane_probe::limits::Limits;
use wavelane_probe::packet::{Message, QUESTION_LEN, Token};
use wavelane_probe::server::Server;
use wavelane_probe::stream::{End, OPENING_LEN, Opening};

/// Octets of a piece.
pub(crate) const PIECE: usize = 96;
const CLIENT: &str = "192.0.2.1:5000";
const STRANGER: &str = "203.0.113.9:53";

struct World {
    now: Instant,
    server: Server,
    client: Client,
    /// A session of the server's, opened in order.
    token: Token,
    /// The client's session.
    known: Token,
}

fn entropy(name: &str) -> Entropy {
    Seed(18).entropy(name)
}

impl World {
    fn new() -> Self {
        let now = Instant::from_secs(1);
        let mut server = Server::new(Limits::default(), entropy("server"));
        let pace = Pace { interval: Span::from_millis(10), size: 100, seconds: 60 };
        let mut client = Client::new(now, pace, entropy("client"));
        let mut known = [0; 16];
        for _ in 0..2 {
            let (mut question, mut answer) = ([0; 200], [0; 200]);
            let sent = client.poll_transmit(now, PortId(0), &mut question, 1).expect("the handshake goes on");
            let from = CLIENT.parse().expect("an address");
            let got = server.handle(now, now, from, &question[..sent.len], &mut answer).expect("it is answered");
            client.handle_frame(now, PortId(0), &mut answer[..got.len], FrameMeta::default());
        }
        while let Some(event) = client.poll_event() {
            if let ClientEvent::Opened { token, .. } = event {
                known = token;
            }
        }
        client.begin(now, 0, 0);
        client.begin(now, 1, 46);
        Self { now, server, client, token: known, known }
    }

    fn serve(&mut self, from: &str, datagram: &[u8]) {
        let mut out = [0; 2_000];
        let from = from.parse().expect("an address");
        if let Some(answer) = self.server.handle(self.now, self.now, from, datagram, &mut out) {
            assert!(answer.len <= datagram.len(), "{} octets drew {}", datagram.len(), answer.len);
            assert!(Message::parse(&out[..answer.len]).is_ok());
        }
        assert!(self.server.sessions() <= Limits::default().sessions);
    }
}

/// Puts the header, and what is known, into a datagram of the input's.
fn known(octets: &[u8], token: Token) -> Vec<u8> {
    let mut datagram = octets.to_vec();
    datagram.resize(datagram.len().max(QUESTION_LEN), 0);
    datagram[..5].copy_from_slice(b"WLPR\x01");
    if datagram[5] & 0x80 != 0 {
        datagram[5] &= 0x0f;
        datagram[6..22].copy_from_slice(&token);
    }
    datagram
}

/// Feeds `input`; panics if a bound or an invariant breaks. Returns how many datagrams the client sent.
pub(crate) fn feed(input: &[u8]) -> usize {
    let mut world = World::new();
    let (mut end, mut alive) = (End::new(input.len() & 1 == 1), true);
    let mut sent = 0;
    for piece in input.chunks(PIECE) {
        let (wait, act) = (piece[0], piece.get(1).copied().unwrap_or(0));
        let octets = piece.get(2..).unwrap_or(&[]);
        world.now += Span::from_millis(u64::from(wait) * if act & 0x80 != 0 { 50 } else { 1 });
        match act & 7 {
            0 => world.serve(STRANGER, octets),
            1 => world.serve(STRANGER, &known(octets, world.token)),
            2 => world.serve(CLIENT, &known(octets, world.token)),
            3 | 4 => {
                let mut frame = if act & 7 == 3 { octets.to_vec() } else { known(octets, world.known) };
                let meta = FrameMeta { rx_time: world.now, ..FrameMeta::default() };
                world.client.handle_frame(world.now, PortId(0), &mut frame, meta);
            }
            5 => {
                alive &= alive && end.take(octets).is_ok();
                for _ in 0..4 {
                    let n = end.fill(|| 7).len();
                    end.wrote(n.min(usize::from(wait) * 40));
                }
                let _ = end.pong();
            }
            6 => {
                let mut opening = [0; OPENING_LEN];
                opening.iter_mut().zip(octets).for_each(|(to, from)| *to = *from);
                if let Ok(parsed) = Opening::parse(&opening) {
                    assert_eq!(Opening::parse(&parsed.to_bytes()), Ok(parsed));
                }
            }
            _ => world.client.end(world.now, u32::from(wait & 1)),
        }
        if let Ok(message) = Message::parse(octets) {
            let mut buf = [0; 2_000];
            let len = message.emit(&mut buf, octets.len()).expect("room for any");
            assert_eq!(Message::parse(&buf[..len]), Ok(message));
        }
        world.server.expire(world.now);
        world.client.handle_timeout(world.now);
        let mut buf = [0; 2_000];
        for port in [0, 46] {
            while world.client.poll_transmit(world.now, PortId(port), &mut buf, 1).is_some() {
                sent += 1;
            }
        }
        while world.client.poll_event().is_some() {}
        let next = world.client.poll_timeout();
        assert!(next.is_none_or(|wakeup| wakeup.at > world.now), "a deadline of the past: {next:?}");
    }
    sent
}
