use super::*;

const ROOMS: Rooms = Rooms { first: 128 << 10, most: 512 << 10, per_byte: 4 };

fn at(ms: u64) -> Instant {
    Instant::ZERO + Span::from_millis(ms)
}

#[test]
fn a_socket_that_runs_dry_in_mid_flow_gets_more_up_to_the_most() {
    let mut window = Window::new(at(0), ROOMS);
    let mut sizes = Vec::new();
    for _ in 0..4 {
        window.took(ROOMS.most);
        sizes.extend(window.ran_dry(at(1)));
    }
    assert_eq!(sizes, [ROOMS.first * 2, ROOMS.most]);
    // A window of half a segment in a buffer that each segment fills is found too small as well.
    let mut window = Window::new(at(0), Rooms { first: 4 << 10, most: 512 << 10, per_byte: 16 });
    window.took(260);
    assert_eq!(window.ran_dry(at(1)), Some(8 << 10));
    // Occasional small transfers need no change.
    let mut window = Window::new(at(0), ROOMS);
    window.took(10_000);
    assert_eq!(window.ran_dry(at(1)), None);
}
