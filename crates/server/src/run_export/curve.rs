//! The best speedup over a run's candidates, as a drawing in a page.

use domain::api::Curve;

use super::html::Html;

/// Size of the drawing and its margins, in its own units.
const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 280.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 34.0;
/// The most lines of the scale.
const LINES: f64 = 6.0;

/// The confidence interval of the best candidate's speedup.
#[derive(Debug, Clone, Copy)]
pub(super) struct Interval {
    /// Position of the candidate in the run.
    pub(super) ordinal: u32,
    /// Lower and upper end.
    pub(super) ends: [f64; 2],
}

/// Draws the curve; nothing where no candidate was accepted.
pub(super) fn draw(curve: &Curve, interval: Option<Interval>) -> Html {
    let mut page = Html::default();
    let best = curve.best.iter().flatten().copied().fold(0.0, f64::max);
    let highest = interval.map_or(best, |interval| best.max(interval.ends[1]));
    if best <= 0.0 {
        page.raw("<p class=\"soft\">No candidate was accepted.</p>");
        return page;
    }
    let step = step(highest);
    let top = (highest / step).ceil() * step;
    let last = f64::from(curve.total.max(2) - 1);
    let x = |ordinal: u32| LEFT + (WIDTH - LEFT - RIGHT) * f64::from(ordinal) / last;
    let y = |speedup: f64| HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (speedup / top).min(1.0);
    page.raw("<svg viewBox=\"0 0 ")
        .text(WIDTH)
        .raw(" ")
        .text(HEIGHT);
    page.raw("\" role=\"img\" aria-label=\"Best speedup over the candidates, up to ");
    page.text(format!("{best:.2}"))
        .raw(" times the baseline's speed\">");
    let mut at = 0.0;
    while at <= top + step / 2.0 {
        line(&mut page, "grid", [LEFT, y(at), WIDTH - RIGHT, y(at)]);
        label(
            &mut page,
            [LEFT - 6.0, y(at) + 4.0],
            "end",
            format!("{at:.1}x"),
        );
        at += step;
    }
    line(&mut page, "baseline", [LEFT, y(1.0), WIDTH - RIGHT, y(1.0)]);
    label(&mut page, [LEFT, HEIGHT - 10.0], "start", "candidate 0");
    label(
        &mut page,
        [WIDTH - RIGHT, HEIGHT - 10.0],
        "end",
        curve.total.saturating_sub(1),
    );
    for (ordinal, speedup) in curve.fastest_ordinals.iter().zip(&curve.fastest) {
        if let (Some(ordinal), Some(speedup)) = (ordinal, speedup) {
            page.raw("<circle class=\"dot\" r=\"2\" cx=\"")
                .text(rounded(x(*ordinal)));
            page.raw("\" cy=\"").text(rounded(y(*speedup))).raw("\"/>");
        }
    }
    if let Some(Interval {
        ordinal,
        ends: [lower, upper],
    }) = interval
    {
        line(
            &mut page,
            "interval",
            [x(ordinal), y(lower), x(ordinal), y(upper)],
        );
    }
    page.raw("<path class=\"best\" d=\"")
        .text(steps(curve, x, y))
        .raw("\"/></svg>");
    page
}

/// The best so far as a path of steps, each at the candidate that made it.
fn steps(curve: &Curve, x: impl Fn(u32) -> f64, y: impl Fn(f64) -> f64) -> String {
    let mut path = String::new();
    let mut before: Option<f64> = None;
    for (bucket, best) in curve.best.iter().enumerate() {
        let Some(best) = *best else { continue };
        if before.is_some_and(|before| before >= best) {
            continue;
        }
        let ordinal = curve.fastest_ordinals[bucket].unwrap_or(curve.ordinals[bucket]);
        let (x, y) = (rounded(x(ordinal)), rounded(y(best)));
        path.push_str(&match before {
            None => format!("M{x} {y}"),
            Some(_) => format!("H{x}V{y}"),
        });
        before = Some(best);
    }
    format!("{path}H{}", rounded(WIDTH - RIGHT))
}

/// The distance of the scale's lines: 1, 2 or 5 times a power of ten.
fn step(highest: f64) -> f64 {
    let power = 10_f64.powf((highest / LINES).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    let fits = |step: &f64| highest / step <= LINES;
    steps.into_iter().find(fits).unwrap_or(highest)
}

fn line(page: &mut Html, class: &'static str, [x1, y1, x2, y2]: [f64; 4]) {
    page.raw("<line class=\"")
        .raw(class)
        .raw("\" x1=\"")
        .text(rounded(x1));
    page.raw("\" y1=\"")
        .text(rounded(y1))
        .raw("\" x2=\"")
        .text(rounded(x2));
    page.raw("\" y2=\"").text(rounded(y2)).raw("\"/>");
}

fn label(page: &mut Html, [x, y]: [f64; 2], anchor: &'static str, text: impl std::fmt::Display) {
    page.raw("<text text-anchor=\"")
        .raw(anchor)
        .raw("\" x=\"")
        .text(rounded(x));
    page.raw("\" y=\"")
        .text(rounded(y))
        .raw("\">")
        .text(text)
        .raw("</text>");
}

fn rounded(length: f64) -> f64 {
    (10.0 * length).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(best: &[Option<f64>]) -> Curve {
        let count = u32::try_from(best.len()).unwrap();
        Curve {
            total: count,
            width: 1,
            ordinals: (0..count).collect(),
            accepted: vec![1; best.len()],
            fastest: best.to_vec(),
            fastest_ordinals: (0..count)
                .zip(best)
                .map(|(at, best)| best.map(|_| at))
                .collect(),
            fastest_seconds: vec![None; best.len()],
            best: best.to_vec(),
        }
    }

    #[test]
    fn a_step_rises_at_the_candidate_that_made_it() {
        let drawn = draw(&curve(&[Some(1.0), None, Some(2.0), Some(2.0)]), None).finish();
        // Ordinals 0 to 3 lie between 52 and 848, speedups 0 to 2 between 246 and 12.
        assert!(drawn.contains("d=\"M52 129H582.7V12H848\""), "{drawn}");
    }

    #[test]
    fn scales_have_a_few_round_lines() {
        for (highest, expected) in [(1.0, 0.2), (2.0, 0.5), (6.5, 2.0), (31.0, 10.0)] {
            assert!((step(highest) - expected).abs() < 1e-9, "{highest}");
        }
    }

    #[test]
    fn without_an_accepted_candidate_nothing_is_drawn() {
        for empty in [curve(&[]), curve(&[None])] {
            assert!(!draw(&empty, None).finish().contains("<svg"));
        }
    }
}
