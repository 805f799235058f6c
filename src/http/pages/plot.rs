//! Bars over time, drawn here. Places are in percent, so that a plot fits every window and its words keep their size.

use super::text;
use maud::{Markup, html};

/// One bar, from the bottom up: how much of what, by the name of its style.
pub struct Bar {
    /// What it stands for, in full.
    pub title: String,
    /// Below the bar, where there is room for it.
    pub label: Option<String>,
    pub parts: Vec<(&'static str, f64)>,
}

pub struct Plot<'a> {
    pub id: &'a str,
    pub title: &'a str,
    /// The time it is about.
    pub about: &'a str,
    pub bars: Vec<Bar>,
    /// A value with its unit.
    pub show: &'a dyn Fn(f64) -> String,
    /// What the parts are, by the names of their styles; none where there is one.
    pub legend: Vec<(&'static str, &'a str)>,
    /// What a bar stands for, and its value: the heads of the table.
    pub heads: [&'a str; 2],
    /// In place of a plot without bars.
    pub nothing: &'a str,
}

const HEIGHT: f64 = 120.0;
/// In percent: a label that begins later would end outside of the plot, on a telephone's screen.
const LABEL_ROOM: f64 = 85.0;

impl Bar {
    fn sum(&self) -> f64 {
        self.parts.iter().map(|(_, value)| value).sum()
    }
}

impl Plot<'_> {
    pub fn draw(&self) -> Markup {
        let most = self.bars.iter().map(Bar::sum).fold(0.0, f64::max);
        let caption = html! { figcaption #(self.id) { strong { (self.title) } span.soft { (self.about) } } };
        if most <= 0.0 {
            return html! { figure.plot.card aria-labelledby=(self.id) { (caption) p.empty { (self.nothing) } } };
        }
        let top = nice(most);
        html! {
            figure.plot.card aria-labelledby=(self.id) {
                (caption)
                (self.legend())
                div.bars {
                    span.top.soft { ((self.show)(top)) }
                    svg role="img" aria-labelledby=(self.id) width="100%" height=(HEIGHT) {
                        @for share in [0.0, 0.5, 1.0] {
                            line.grid x1="0" x2="100%" y1=(places(HEIGHT * share)) y2=(places(HEIGHT * share)) {}
                        }
                        @for (index, bar) in self.bars.iter().enumerate() { (self.bar(index, bar, top)) }
                    }
                    (self.labels())
                }
                (self.table())
            }
        }
    }

    fn bar(&self, index: usize, bar: &Bar, top: f64) -> Markup {
        let step = 100.0 / self.bars.len() as f64;
        let (x, width) = (places(step * (index as f64 + 0.1)), places(step * 0.8));
        let mut y = HEIGHT;
        let parts: Vec<_> = bar
            .parts
            .iter()
            .filter(|(_, value)| *value > 0.0)
            .map(|(style, value)| {
                let height = value / top * HEIGHT;
                y -= height;
                (*style, places(y), places(height))
            })
            .collect();
        html! {
            @if !parts.is_empty() {
                g {
                    title { (bar.title) ": " ((self.show)(bar.sum())) }
                    @for (style, y, height) in &parts {
                        rect.(*style) x={ (x) "%" } width={ (width) "%" } y=(y) height=(height) {}
                    }
                }
            }
        }
    }

    fn labels(&self) -> Markup {
        let step = 100.0 / self.bars.len() as f64;
        html! {
            svg.labels aria-hidden="true" width="100%" height="18" {
                @for (index, label) in self.bars.iter().enumerate().filter_map(|(index, bar)| Some((index, bar.label.as_ref()?))) {
                    @if step * index as f64 > LABEL_ROOM {
                        text x={ (places(step * (index as f64 + 0.9))) "%" } y="14" text-anchor="end" { (label) }
                    } @else {
                        text x={ (places(step * (index as f64 + 0.1))) "%" } y="14" { (label) }
                    }
                }
            }
        }
    }

    fn legend(&self) -> Markup {
        html! {
            @if !self.legend.is_empty() {
                ul.legend { @for (style, name) in &self.legend { li { span.key.(*style) aria-hidden="true" {} (name) } } }
            }
        }
    }

    /// The same for those who cannot see it.
    fn table(&self) -> Markup {
        let [what, value] = self.heads;
        html! {
            details.as-table {
                summary { (text::AS_TABLE) }
                div.scroll tabindex="0" role="group" aria-labelledby=(self.id) {
                    table {
                        thead { tr { th scope="col" { (what) } th.number scope="col" { (value) } } }
                        tbody { @for bar in self.bars.iter().filter(|bar| bar.sum() > 0.0) {
                            tr { th scope="row" { (bar.title) } td.number { ((self.show)(bar.sum())) } }
                        } }
                    }
                }
            }
        }
    }
}

/// The next of 1, 2, 5, 10, 20, …
fn nice(most: f64) -> f64 {
    let power = 10_f64.powf(most.log10().floor());
    [1.0, 2.0, 5.0].into_iter().map(|step| step * power).find(|top| *top >= most).unwrap_or(10.0 * power)
}

/// Two places are less than a pixel of any window.
pub fn places(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_ends_at_a_round_number() {
        assert_eq!([0.03, 1.0, 1.1, 7.0, 23.0, 100.0].map(nice), [0.05, 1.0, 2.0, 10.0, 50.0, 100.0]);
    }

    #[test]
    fn bars_add_up_to_their_value_and_what_they_are_called_stays_text() {
        let bar = |title: &str, parts| Bar { title: title.into(), label: None, parts };
        let plot = Plot {
            id: "p",
            title: "Calls",
            about: "today",
            bars: vec![bar("<b>", vec![("normal", 3.0), ("engine", 1.0)]), bar("none", vec![])],
            show: &|value| format!("{value} calls"),
            legend: vec![("normal", "fine")],
            heads: ["Hour", "Calls"],
            nothing: "nothing",
        };
        let drawn = plot.draw().0;
        assert!(drawn.contains("<title>&lt;b&gt;: 4 calls</title>") && !drawn.contains("<b>"), "{drawn}");
        assert!(drawn.contains(r#"class="normal" x="5%" width="40%" y="48" height="72""#), "{drawn}");
        assert!(drawn.contains(r#"class="engine" x="5%" width="40%" y="24" height="24""#), "{drawn}");
        let labelled = |label: &str| Bar { label: Some(label.into()), ..bar("none", vec![("normal", 1.0)]) };
        let bars: Vec<_> = (0..10).map(|day| labelled(&format!("day {day}"))).collect();
        let drawn = Plot { bars, ..plot }.draw().0;
        assert!(drawn.contains(r#"<text x="81%" y="14">day 8</text>"#), "{drawn}");
        assert!(drawn.contains(r#"<text x="99%" y="14" text-anchor="end">day 9</text>"#), "within the card: {drawn}");
        let plot = Plot {
            bars: vec![],
            id: "p",
            title: "Calls",
            about: "today",
            show: &|value| format!("{value}"),
            legend: vec![],
            heads: ["Hour", "Calls"],
            nothing: "nothing",
        };
        let empty = Plot { bars: vec![], ..plot };
        assert!(empty.draw().0.contains("nothing"));
    }
}
