#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
use super::bulk::complaints;
use super::*;
use wavelane_lab::duel::Load;

/// Whether the laboratory can be built here; says so loudly if not.
fn allowed() -> bool {
    let yes = wavelane_lab::may_run();
    if !yes {
        eprintln!("SKIPPED (needs root): TCP of ours against the kernel");
    }
    yes
}

/// Both ways between ours and the kernel over a link that loses and reorders: every byte arrives as it was sent, the
/// losses of the link are repeated and little else, and tshark finds nothing wrong.
#[test]
fn ours_and_the_kernel_understand_each_other() {
    if !allowed() {
        return;
    }
    let cases = [
        ([Who::Ours, Who::Kernel], Control::Cubic, false),
        ([Who::Kernel, Who::Ours], Control::Bbr, false),
        ([Who::Kernel, Who::Ours], Control::Reno, true),
        ([Who::Ours, Who::Kernel], Control::Bbr, true),
    ];
    for (who, control, ipv6) in cases {
        let name = format!("wavelane-{}-{}-{ipv6}.pcapng", std::process::id(), control.word());
        let path = std::env::temp_dir().join(name);
        let mut cable = losing(link(200, Span::from_millis(2), 500_000), 1);
        cable.forward.reorder =
            wavelane_channel::Reorder { p: Ratio::new(1, 200).unwrap(), extra: Span::from_millis(1) };
        let duel = Duel {
            name: LINK.into(),
            seed: Seed(1),
            cable,
            flows: 1,
            load: Load::Octets(8_000_000),
            limit: Span::from_secs(60),
            ipv6,
            capture: Some(path.clone()),
        };
        let end = fight(&duel, who, control, &AtomicBool::new(false)).unwrap();
        assert_eq!(end.flows[0].intact, Some(true), "{who:?} {control:?}");
        let dropped = end.link[0].offered.frames - end.link[0].delivered.frames;
        let kernel = end.kernel.iter().flatten().map(|all| all["TcpRetransSegs"]).max().unwrap();
        let ours = end.guests.iter().flatten().flat_map(|host| host.0.statuses()).map(|s| s.counters.retransmits);
        // A receiver that has read everything has forgotten its connection.
        let repeats = ours.max().unwrap_or(0).max(kernel);
        println!("{who:?} {control:?}: {dropped} dropped, {repeats} repeated, late {}", end.late);
        assert!(repeats >= dropped.saturating_sub(1), "{repeats} repeats for {dropped} drops");
        match complaints(&path) {
            Ok((frames, bad)) => assert!(frames > 5_000 && bad == 0, "{bad} of {frames}"),
            Err(why) => eprintln!("SKIPPED ({why}): reading the capture"),
        }
        std::fs::remove_file(&path).unwrap();
    }
}
