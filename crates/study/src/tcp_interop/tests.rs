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
/// losses of the link are retransmitted and little else, and tshark finds nothing wrong.
#[test]
fn our_tcp_interoperates_with_the_kernel() {
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
            window: None,
            capture: Some(path.clone()),
        };
        let end = fight(&duel, who, control, &AtomicBool::new(false)).unwrap();
        assert_eq!(end.flows[0].intact, Some(true), "{who:?} {control:?}");
        let dropped = end.link[0].offered.frames - end.link[0].delivered.frames;
        let kernel = end.kernel.iter().flatten().map(|all| all["TcpRetransSegs"]).max().unwrap();
        let ours = end.hosts.iter().flatten().flat_map(|host| host.0.statuses()).map(|s| s.counters.retransmits);
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

/// What can be asked for runs something, and what runs can be asked for.
#[test]
fn every_trouble_is_in_a_part_that_can_be_named() {
    let own = ["captures", "goodput", "demo"];
    let of = |trouble: bulk::Trouble| trouble.parts().iter().copied();
    let known: std::collections::BTreeSet<&str> = bulk::Trouble::ALL.into_iter().flat_map(of).chain(own).collect();
    assert_eq!(known, PARTS.into_iter().collect());
}

/// Hand-computed: 8, 10, 12 over 4, 5, 6 is 2; each mean's relative error is 1/(5 sqrt 3), with 4 degrees of freedom, of
/// which Student's 97.5 % point is 2.776.
#[test]
fn a_ratio_of_means_has_the_interval_of_both() {
    let half = ratio_half(&[8.0, 10.0, 12.0], &[4.0, 5.0, 6.0]).unwrap();
    assert!((half - 2.0 * 2.776 * (2.0f64 / 75.0).sqrt()).abs() < 1e-3, "{half}");
    assert_eq!(ratio_half(&[8.0], &[4.0, 5.0]), None);
}

/// Hand-computed: 8, 10, 12 over 4, 5, 6 are 2 at every seed; 8, 11, 12 over 4, 5, 5 are 31/14, off by -6/7, -1/14 and
/// 13/14, whose deviation is 0.8955; 4.303 is Student's 97.5 % point with 2 degrees of freedom.
#[test]
fn paired_ratios_cancel_the_seeds_effect() {
    assert!(paired_half(&[8.0, 10.0, 12.0], &[4.0, 5.0, 6.0]).unwrap() < 1e-9);
    let half = paired_half(&[8.0, 11.0, 12.0], &[4.0, 5.0, 5.0]).unwrap();
    assert!((half - 4.303 * 0.8955 / 3.0f64.sqrt() / (14.0 / 3.0)).abs() < 1e-3, "{half}");
    assert_eq!(paired_half(&[8.0], &[4.0]), None);
}

/// A mean outside the bound is a failure only if its interval stays outside too.
#[test]
fn a_ratio_is_judged_by_its_interval() {
    let judged = |ours: &[f64], theirs: &[f64]| {
        let mut row = row("lab", "cubic", "ratio", "ratio", serde_json::json!({}));
        judge_ratio(&mut row, ours, theirs, Seeds::Own, 0.15);
        row.verdict
    };
    assert_eq!(judged(&[1.1, 1.0, 1.2], &[1.0, 1.0, 1.0]), Verdict::Pass);
    assert_eq!(judged(&[1.0, 1.9, 1.0], &[1.0, 1.0, 1.0]), Verdict::Inconclusive);
    assert_eq!(judged(&[1.5, 1.51, 1.49], &[1.0, 1.0, 1.0]), Verdict::Fail);
    assert_eq!(judged(&[], &[1.0]), Verdict::Inconclusive);
}
