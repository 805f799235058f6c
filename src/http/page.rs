//! The page for people: is it ready, who is talking, and why did the last calls end.
//!
//! It stands alone: no script, no file of another server. Every text from outside this file goes
//! through [`Escaped`].

use super::view::{About, ActiveCall, CallHead, CallsView, EndedCall, Readiness};
use crate::{call::EndClass, facts::CallId, records::Counts};
use jiff::{Timestamp, tz::TimeZone};
use std::{
    fmt::{self, Display, Formatter, Write},
    time::Duration,
};

const STYLE: &str = include_str!("page.css");
/// How often the page loads itself again, in seconds: slow enough to be read, fast enough to watch a call.
const REFRESH_S: u32 = 5;
/// Rows of ended calls; `/calls` has all that are kept.
const RECENT_ROWS_MAX: usize = 50;

/// Everything on the page; its `Display` is the HTML.
pub(super) struct Page {
    pub about: About,
    pub readiness: Readiness,
    pub calls: CallsView,
    pub now: Timestamp,
    pub time_zone: TimeZone,
    pub refreshes: bool,
}

impl Display for Page {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let ready = self.readiness.is_ready();
        let state = if ready { "ready" } else { "not ready" };
        let active = self.calls.active.len();
        f.write_str("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n")?;
        f.write_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n")?;
        if self.refreshes {
            writeln!(f, "<meta http-equiv=\"refresh\" content=\"{REFRESH_S}\">")?;
        }
        // The favicon is empty and in place, so that the browser does not ask for one.
        writeln!(f, "<link rel=\"icon\" href=\"data:,\">\n<title>offhook: {state}, {active} active</title>")?;
        writeln!(f, "<style>\n{STYLE}</style>\n</head>\n<body>")?;
        self.header(f, ready, state)?;
        f.write_str("<main>\n")?;
        self.checks(f)?;
        self.active(f)?;
        self.recent(f)?;
        f.write_str("</main>\n")?;
        self.footer(f)?;
        f.write_str("</body>\n</html>\n")
    }
}

impl Page {
    fn header(&self, f: &mut Formatter<'_>, ready: bool, state: &str) -> fmt::Result {
        let colour = if ready { "good" } else { "bad" };
        let up = Lasted(since(self.about.started, self.now));
        writeln!(f, "<header>\n<h1>offhook</h1>\n<p class=\"mark {colour}\">{state}</p>")?;
        writeln!(
            f,
            "<p class=\"soft\">version {}, up for {up}, configuration generation {}</p>\n</header>",
            Escaped(self.about.version),
            self.about.generation
        )
    }

    fn checks(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("<h2>Would a new call be taken?</h2>\n<ul class=\"checks\">\n")?;
        for (name, check) in self.readiness.checks() {
            let (colour, word) = if check.ok { ("good", "ok") } else { ("bad", "not ok") };
            let title = match name {
                "ari" => "Asterisk (ARI)",
                "media" => "Media",
                "providers" => "Providers",
                _ => "Accepting calls",
            };
            write!(f, "<li><strong>{title}</strong> <span class=\"mark {colour}\">{word}</span>")?;
            writeln!(f, "<p>{}</p></li>", Escaped(&check.reason))?;
        }
        f.write_str("</ul>\n")
    }

    fn active(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let calls = &self.calls.active;
        writeln!(f, "<h2 id=\"active\">Active calls: {}</h2>", calls.len())?;
        if calls.is_empty() {
            return f.write_str("<p class=\"soft\">Nobody is on the line.</p>\n");
        }
        let heads = ["Since", "Lasting", "Context", "Provider", "Phase", "Turns", "Barge-ins", "Tools", "Lost", "Call"];
        self.table_head(f, "active", &heads)?;
        for ActiveCall { call, phase, counts } in calls {
            f.write_str("<tr>")?;
            cell(f, "Since", self.start(call))?;
            number(f, "Lasting", Lasted(since(call.since, self.now)))?;
            cell(f, "Context", Escaped(&call.context))?;
            cell(f, "Provider", Escaped(&call.provider))?;
            cell(f, "Phase", Escaped(phase))?;
            count_cells(f, counts)?;
            cell(f, "Call", ShortId(call.id))?;
            f.write_str("</tr>\n")?;
        }
        f.write_str("</tbody>\n</table>\n</div>\n")
    }

    fn recent(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("<h2 id=\"recent\">Why the last calls ended</h2>\n")?;
        if self.calls.recent.is_empty() {
            return f.write_str("<p class=\"soft\">No call has ended yet.</p>\n");
        }
        let heads = ["Began", "Lasted", "Why it ended", "Context", "Provider", "Turns", "Barge-ins", "Tools", "Lost"];
        self.table_head(f, "recent", &heads)?;
        for EndedCall { call, lasted, reason, counts, .. } in self.calls.recent.iter().take(RECENT_ROWS_MAX) {
            f.write_str("<tr>")?;
            cell(f, "Began", self.start(call))?;
            number(f, "Lasted", Lasted(*lasted))?;
            let class = reason.class();
            write!(f, "<td class=\"reason\"><span class=\"mark {}\">{}</span> ", colour(class), class.label())?;
            write!(f, "{}<p class=\"soft\">", Sentence(reason.describe()))?;
            write!(f, "<code>{}</code>, call {}</p></td>", reason.label(), ShortId(call.id))?;
            cell(f, "Context", Escaped(&call.context))?;
            cell(f, "Provider", Escaped(&call.provider))?;
            count_cells(f, counts)?;
            f.write_str("</tr>\n")?;
        }
        f.write_str("</tbody>\n</table>\n</div>\n")
    }

    fn footer(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let now = self.now.to_zoned(self.time_zone.clone());
        write!(
            f,
            "<footer class=\"soft\">\n<p>As of {}. ",
            Escaped(&now.strftime("%Y-%m-%d %H:%M:%S %Z").to_string())
        )?;
        if self.refreshes {
            write!(
                f,
                "This page loads itself again every {REFRESH_S} seconds; <a href=\"/?refresh=off\">hold it</a>."
            )?;
        } else {
            f.write_str("This page is held; <a href=\"/\">let it run</a>.")?;
        }
        f.write_str("</p>\n<p>For programs: <a href=\"/calls\">calls</a>, <a href=\"/ready\">readiness</a>, ")?;
        f.write_str("<a href=\"/metrics\">metrics</a>.</p>\n</footer>\n")
    }

    /// A call's beginning: the time alone for today, else the day too.
    fn start(&self, call: &CallHead) -> String {
        let (began, now) = (call.since.to_zoned(self.time_zone.clone()), self.now.to_zoned(self.time_zone.clone()));
        let format = if began.date() == now.date() { "%H:%M:%S" } else { "%Y-%m-%d %H:%M:%S" };
        format!("<time datetime=\"{}\">{}</time>", call.since, began.strftime(format))
    }

    /// Opens a table under the heading with the id `label`; the columns of numbers stand right.
    fn table_head(&self, f: &mut Formatter<'_>, label: &str, heads: &[&str]) -> fmt::Result {
        // A region that scrolls must be reachable by keyboard.
        writeln!(f, "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-labelledby=\"{label}\">")?;
        f.write_str("<table>\n<thead><tr>")?;
        let zone = self.now.to_zoned(self.time_zone.clone()).strftime("%Z").to_string();
        for head in heads {
            let number = matches!(*head, "Lasting" | "Lasted" | "Turns" | "Barge-ins" | "Tools" | "Lost");
            let class = if number { " class=\"number\"" } else { "" };
            let hint = if *head == "Lost" { " title=\"20 ms slots missed and frames dropped\"" } else { "" };
            write!(f, "<th scope=\"col\"{class}{hint}>{head}")?;
            if matches!(*head, "Since" | "Began") {
                write!(f, ", {}", Escaped(&zone))?;
            }
            f.write_str("</th>")?;
        }
        f.write_str("</tr></thead>\n<tbody>\n")
    }
}

/// A cell that knows its column's name: a narrow screen shows it there, since it stacks the cells.
fn cell(f: &mut Formatter<'_>, head: &str, content: impl Display) -> fmt::Result {
    write!(f, "<td data-head=\"{head}\">{content}</td>")
}

fn number(f: &mut Formatter<'_>, head: &str, content: impl Display) -> fmt::Result {
    write!(f, "<td class=\"number\" data-head=\"{head}\">{content}</td>")
}

fn count_cells(f: &mut Formatter<'_>, counts: &Counts) -> fmt::Result {
    let lost = counts.slots_missed.saturating_add(counts.frames_dropped);
    number(f, "Turns", counts.agent_turns)?;
    number(f, "Barge-ins", counts.barge_ins)?;
    number(f, "Tools", counts.tool_calls)?;
    number(f, "Lost", lost)
}

const fn colour(class: EndClass) -> &'static str {
    match class {
        EndClass::Normal => "good",
        EndClass::Limit | EndClass::Operator => "note",
        EndClass::Provider | EndClass::Asterisk | EndClass::Engine => "bad",
    }
}

fn since(began: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(began)).unwrap_or_default()
}

/// Text that HTML cannot take for markup, in an element or in a quoted attribute.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                _ => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// The end of a call's id, which finds it in the log; the beginning may be the same for many calls.
struct ShortId(CallId);

impl Display for ShortId {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let id = self.0.to_string();
        let end = id.rsplit('-').next().unwrap_or(&id);
        write!(f, "<code title=\"{id}\">{end}</code>")
    }
}

/// A phrase, written as a sentence.
struct Sentence<'a>(&'a str);

impl Display for Sentence<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.chars();
        if let Some(first) = rest.next() {
            write!(f, "{}", Escaped(first.to_uppercase().to_string().as_str()))?;
        }
        write!(f, "{}.", Escaped(rest.as_str()))
    }
}

/// `0:07`, `12:34`, `1:02:03`, and days in front where there are any.
struct Lasted(Duration);

impl Display for Lasted {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        let (days, hours, minutes, seconds) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
        match (days, hours) {
            (0, 0) => write!(f, "{minutes}:{seconds:02}"),
            (0, _) => write!(f, "{hours}:{minutes:02}:{seconds:02}"),
            _ => write!(f, "{days} d {hours}:{minutes:02}:{seconds:02}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_a_name_stays_text() {
        let escaped = Escaped("<script>alert('a' & \"b\")</script>").to_string();
        assert_eq!(escaped, "&lt;script&gt;alert(&#39;a&#39; &amp; &quot;b&quot;)&lt;/script&gt;");
    }

    #[test]
    fn durations_read_like_a_clock() {
        let shown = |seconds| Lasted(Duration::from_secs(seconds)).to_string();
        assert_eq!([7, 754, 3_723, 90_061].map(shown), ["0:07", "12:34", "1:02:03", "1 d 1:01:01"]);
    }

    #[test]
    fn an_ending_reads_as_a_sentence() {
        assert_eq!(Sentence("the caller hung up").to_string(), "The caller hung up.");
    }
}
