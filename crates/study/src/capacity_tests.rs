#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
use super::*;

/// One run at `gbps` for one second, in which the machine was busy for `busy` seconds.
fn cell(stack: &'static str, flows: usize, way: TransferDirection, gbps: f64, busy: f64) -> Cell {
    let octets = (gbps * 1e9 / 8.0) as u64;
    let programs = (stack != PLAIN).then_some(busy / 2.0);
    let run = Capacity { octets, time: Span::from_secs(1), busy: Some(busy), programs };
    Cell { stack, flows, way, runs: vec![run], missing: None, absent: false }
}

fn cells(ours: f64, rival: f64) -> Vec<Cell> {
    let grid = || FLOWS.into_iter().flat_map(|flows| WAYS.map(|way| (flows, way)));
    STACKS
        .into_iter()
        .flat_map(|stack| {
            grid().map(move |(flows, way)| match stack {
                PLAIN => cell(stack, flows, way, 8.0, 1.0),
                OURS => cell(stack, flows, way, ours, 1.0),
                SEALED => cell(stack, flows, way, ours * 0.8, 1.0),
                _ => cell(stack, flows, way, rival, 1.0),
            })
        })
        .collect()
}

fn of<'a>(rows: &'a [Row], metric: &str) -> &'a Row {
    rows.iter().find(|r| r.stack == OURS && r.metric.starts_with(metric) && r.case.is_empty()).unwrap()
}

#[test]
fn every_stack_named_here_exists() {
    // It panics over one that does not.
    STACKS.iter().for_each(|name| assert!(name.starts_with(stack_of(name).word())));
}

#[test]
fn the_slowest_cell_decides() {
    let mut cells = cells(2.0, 1.0);
    let rows = judge(&cells, &[]);
    assert_eq!(of(&rows, "least goodput_bps").verdict, Verdict::Pass);
    assert_eq!(of(&rows, "least_ratio").value, Some(2.0));
    let place = cells.iter().position(|c| c.stack == OURS && c.flows == 8 && c.way == TransferDirection::Down).unwrap();
    cells[place] = cell(OURS, 8, TransferDirection::Down, 0.5, 1.0);
    let rows = judge(&cells, &[]);
    assert_eq!(of(&rows, "least goodput_bps").verdict, Verdict::Fail);
    assert_eq!(of(&rows, "least_ratio").value, Some(0.5));
    assert_eq!(of(&rows, "least_ratio").verdict, Verdict::Fail);
}

#[test]
fn sealing_may_cost_a_quarter() {
    let sealed = |share: f64| {
        let mut cells = cells(2.0, 1.0);
        for cell in cells.iter_mut().filter(|c| c.stack == SEALED) {
            *cell = self::cell(SEALED, cell.flows, cell.way, 2.0 * share, 1.0);
        }
        let rows = judge(&cells, &[(SEALED, [700.0, 1_500.0])]);
        let opens = rows.iter().filter(|r| r.stack == SEALED && r.metric == "opens_per_s");
        let opens: Vec<_> = opens.map(|row| (row.case["clients"].as_u64(), row.value)).collect();
        assert_eq!(opens, [(Some(8), Some(700.0)), (Some(64), Some(1_500.0))]);
        rows.into_iter().find(|r| r.metric == "least_ratio goodput_bps over wavelane").unwrap().verdict
    };
    assert_eq!((sealed(0.76), sealed(0.74)), (Verdict::Pass, Verdict::Fail));
}

#[test]
fn a_missing_peer_is_inconclusive_with_its_remedy() {
    let mut cells = cells(2.0, 1.0);
    for cell in cells.iter_mut().filter(|c| c.stack == "kcptun") {
        cell.runs.clear();
        cell.missing = Some("apt install kcptun".into());
    }
    let rows = judge(&cells, &[]);
    let verdict = |rival: &str| {
        let row = rows.iter().find(|r| r.metric.ends_with(&format!("over {rival}"))).unwrap();
        (row.verdict, row.why.clone())
    };
    assert_eq!(verdict("kcptun"), (Verdict::Inconclusive, "apt install kcptun".into()));
    assert_eq!(verdict("kcptun-fast3").0, Verdict::Pass);
    let total = StudyDocument::new(ID, Edition::Quick, 1, rows).verdict;
    assert_eq!(total, Verdict::Inconclusive);
}

#[test]
fn a_peer_that_is_not_installed_is_left_out_of_the_quick_edition() {
    let mut cells = cells(2.0, 1.0);
    for cell in cells.iter_mut().filter(|c| c.stack == RIVAL) {
        cell.runs.clear();
        cell.missing = Some("build it".into());
        cell.absent = true;
    }
    let rows = judge(&cells, &[(OURS, [1.0; 2]), (SEALED, [1.0; 2])]);
    for row in rows.iter().filter(|r| r.stack == RIVAL || r.metric.ends_with(RIVAL)) {
        assert_eq!((row.verdict, row.value, row.why.as_str()), (Verdict::Info, None, "build it"), "{}", row.metric);
    }
    assert_eq!(StudyDocument::new(ID, Edition::Quick, 1, rows).verdict, Verdict::Pass);
}

#[test]
fn the_fastest_tunnel_of_others_is_to_be_left_behind_by_more_in_the_median() {
    let verdicts = |ours: f64| {
        let rows = judge(&cells(ours, 1.0), &[]);
        let of = |start: &str| rows.iter().find(|r| r.metric == format!("{start} goodput_bps over {RIVAL}")).unwrap();
        [of("least_ratio").verdict, of("median_ratio").verdict]
    };
    assert_eq!(verdicts(1.6), [Verdict::Pass, Verdict::Pass]);
    assert_eq!(verdicts(1.4), [Verdict::Pass, Verdict::Fail]);
    assert_eq!(verdicts(1.2), [Verdict::Fail, Verdict::Fail]);
}

#[test]
fn cost_excludes_plain_forwarding() {
    let rows = judge(&cells(2.0, 1.0), &[]);
    let cost = |stack: &str, metric: &str| {
        rows.iter().find(|r| r.stack == stack && r.metric == metric && !r.case.is_empty()).and_then(|r| r.value)
    };
    // 2 Gbit/s for a second are 0.25 GB: 4 s/GB, of which forwarding takes 1.
    assert_eq!(cost(OURS, "cpu_s_per_gb"), Some(3.0));
    assert_eq!(cost(OURS, "cpu_own_s_per_gb"), Some(2.0));
    assert_eq!(cost(PLAIN, "cpu_s_per_gb"), None);
}

#[test]
fn a_stacks_kept_cells_are_its_cells() {
    let folder = crate::fixtures::Folder::new("capacity");
    let options = crate::fixtures::options(&folder.0);
    let run = |octets| Capacity { octets, time: Span::from_secs(4), busy: Some(1.5), programs: None };
    let cells: Vec<Cell> = empty("kcptun", "")
        .zip(1..)
        .map(|(cell, n)| Cell { runs: vec![run(n), run(n + 10)], missing: None, ..cell })
        .collect();
    Kept::open(&options, ID).put("kcptun", in_figures(&cells).unwrap());
    let again = of_figures("kcptun", Kept::open(&options, ID).get("kcptun").unwrap());
    assert_eq!(again.len(), cells.len());
    for (again, cell) in again.iter().zip(&cells) {
        assert_eq!((again.stack, again.flows, again.way), (cell.stack, cell.flows, cell.way));
        assert_eq!((&again.runs, &again.missing), (&cell.runs, &None));
    }
    let broken: Vec<Cell> = empty("kcptun", "late").collect();
    assert!(in_figures(&broken).is_none(), "what is missing is measured again");
}
