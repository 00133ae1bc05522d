//! Figures of what people do: reading pages and talking.

use crate::backend::FlowRaw;
use crate::figures::ms;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wavelane_measure::{mean, percentile};
use wavelane_scenario::{App, Flow, Voice};

/// What a reader of pages waited for. Objects that did not end within the run have no time; they are counted.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct WebFigures {
    /// Objects that arrived, each from connect() to its last byte.
    pub objects: u64,
    /// Objects asked for that did not.
    pub unfinished: u64,
    /// Mean time of an object; `null` if none arrived.
    pub response_mean_ms: Option<f64>,
    /// Median time of an object.
    pub response_p50_ms: Option<f64>,
    /// 95th percentile of it.
    pub response_p95_ms: Option<f64>,
    /// Pages of which every object asked for arrived; the last page may be cut short by the run's end.
    pub pages: u64,
    /// Mean time from a page's first connect() to its last byte.
    pub page_mean_ms: Option<f64>,
    /// Median of it.
    pub page_p50_ms: Option<f64>,
    /// 95th percentile of it.
    pub page_p95_ms: Option<f64>,
}

/// What the listener of one direction of a call got. Datagrams sent less than the deadline before the end do not count.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct VoiceFigures {
    /// Datagrams that count.
    pub sent: u64,
    /// Those that never came.
    pub lost: u64,
    /// Those that came after the deadline.
    pub late: u64,
    /// Lost and late over sent; `null` if none was sent.
    #[schemars(extend("maximum" = 1))]
    pub loss: Option<f64>,
    /// Delay of those that came, one way.
    pub delay_mean_ms: Option<f64>,
    /// Median delay.
    pub delay_p50_ms: Option<f64>,
    /// 95th percentile.
    pub delay_p95_ms: Option<f64>,
    /// 99th percentile.
    pub delay_p99_ms: Option<f64>,
    /// Mean difference of the delays of neighbours (RFC 3550, section 6.4.1, without its smoothing).
    pub jitter_ms: Option<f64>,
    /// E-model score with the best play-out delay up to the deadline: what comes later than that is lost.
    #[schemars(extend("minimum" = 1, "maximum" = 5))]
    pub mos: Option<f64>,
}

pub(crate) fn of_web(flow: &Flow, raw: &FlowRaw) -> Option<WebFigures> {
    let App::Web(_) = flow.app else { return None };
    let mut times: Vec<f64> = raw.fetches.iter().filter_map(|f| f.total_ns.map(ms)).collect();
    times.sort_by(f64::total_cmp);
    let mut pages: Vec<f64> = raw
        .fetches
        .chunk_by(|a, b| a.page == b.page)
        .filter_map(|page| {
            let begun = page.iter().map(|f| f.connect_ns).min()?;
            let ends: Option<Vec<u64>> = page.iter().map(|f| Some(f.connect_ns + f.total_ns?)).collect();
            Some(ms(ends?.into_iter().max()? - begun))
        })
        .collect();
    pages.sort_by(f64::total_cmp);
    Some(WebFigures {
        objects: times.len() as u64,
        unfinished: (raw.fetches.len() - times.len()) as u64,
        response_mean_ms: mean(&times),
        response_p50_ms: percentile(&times, 50),
        response_p95_ms: percentile(&times, 95),
        pages: pages.len() as u64,
        page_mean_ms: mean(&pages),
        page_p50_ms: percentile(&pages, 50),
        page_p95_ms: percentile(&pages, 95),
    })
}

pub(crate) fn of_voice(flow: &Flow, raw: &FlowRaw) -> Option<VoiceFigures> {
    let App::Voice(voice) = &flow.app else { return None };
    let deadline = voice.deadline.as_nanos();
    let until = (raw.connect_ns + raw.given_ns).saturating_sub(deadline);
    let counted: Vec<Option<u64>> = raw.probes.iter().filter(|p| p.sent_ns <= until).map(|p| p.rtt_ns).collect();
    let came: Vec<u64> = counted.iter().flatten().copied().collect();
    let late = came.iter().filter(|delay| **delay > deadline).count();
    let lost = counted.len() - came.len();
    let steps: Vec<f64> = came.windows(2).map(|pair| ms(pair[0].abs_diff(pair[1]))).collect();
    let mut delays: Vec<f64> = came.iter().copied().map(ms).collect();
    delays.sort_by(f64::total_cmp);
    Some(VoiceFigures {
        sent: counted.len() as u64,
        lost: lost as u64,
        late: late as u64,
        loss: (!counted.is_empty()).then(|| (lost + late) as f64 / counted.len() as f64),
        delay_mean_ms: mean(&delays),
        delay_p50_ms: percentile(&delays, 50),
        delay_p95_ms: percentile(&delays, 95),
        delay_p99_ms: percentile(&delays, 99),
        jitter_ms: mean(&steps),
        mos: best_mos(voice, &delays, counted.len()),
    })
}

/// The score of a listener with the most suitable play-out delay, the deadline at most. `delays` are sorted: those of the
/// datagrams that came, of `sent`.
fn best_mos(voice: &Voice, delays: &[f64], sent: usize) -> Option<f64> {
    let (packing, deadline) = (ms(voice.spurts.every().as_nanos()), ms(voice.deadline.as_nanos()));
    let score = |(heard, play_out): (usize, f64)| {
        let loss = 100.0 * (sent - heard) as f64 / sent as f64;
        mos(packing + play_out, loss, voice.codec.impairment())
    };
    if sent == 0 {
        return None;
    }
    let choices = delays.iter().enumerate().filter(|(_, delay)| **delay <= deadline).map(|(i, delay)| (i + 1, *delay));
    // Nothing in time is the worst score.
    choices.map(score).max_by(f64::total_cmp).or(Some(1.0))
}

/// Mean opinion score by ITU-T G.107 with its default values: one-way delay, loss in per cent, and the codec's impairment
/// and robustness to random loss.
fn mos(delay_ms: f64, loss: f64, (impairment, robustness): (f64, f64)) -> f64 {
    let of_delay = 0.024 * delay_ms + 0.11 * (delay_ms - 177.3).max(0.0);
    let of_loss = impairment + (95.0 - impairment) * loss / (loss + robustness);
    let r = (93.2 - of_delay - of_loss).clamp(0.0, 100.0);
    (1.0 + 0.035 * r + 7e-6 * r * (r - 60.0) * (100.0 - r)).max(1.0)
}

#[cfg(test)]
#[path = "people_tests.rs"]
mod tests;
