//! A METAR as it is sent → what may be said of it.
//!
//! Read by the crate `metar`. Two crates were tried on the reports of `tests/reports.txt`. `metar` 0.9 knows the whole
//! sentence of a report: a group out of place refuses all of it, so garbage is never spoken as weather.
//! `metar-taf-parser` 0.4 reads every group wherever it stands: it took the groups after an unknown word for the present
//! weather, kept one trend of several, turned statute miles into rounded metres, and overflowed on cloud at 70,000 feet.
//!
//! What `metar` cannot do is done here, before it: groups it has no place for are taken out and kept as flags, trends
//! are read one by one (one that cannot be read is told as missing), remarks are not read. Reports it still refuses
//! (winds of three digits, km/h) are refused: no weather is better than wrong weather.

use jiff::{SignedDuration, Span, Timestamp, civil::DateTime, tz::TimeZone};
use metar::{Data, Metar, Pressure, TrendNewCondition, Visibility, Wind, WindDirection};

/// A report is a line or three; what is longer is none.
const CHARS_MAX: usize = 1000;
/// Clocks differ; a report from further ahead belongs to last month.
const AHEAD_MAX: SignedDuration = SignedDuration::from_mins(60);

pub struct Report {
    pub observed: Timestamp,
    pub metar: Metar,
    /// `SKC`, `CLR`, `NCD`, `NSC`: the crate has one value for three of them.
    pub sky: Option<String>,
    pub bound: Option<Bound>,
    /// `P99MPS` and `P199KPH` are one value with `P99KT` for the crate.
    pub over_unit: &'static str,
    pub closed: Option<&'static str>,
    pub nosig: bool,
    pub trends: Vec<Trend>,
}

/// A visibility in statute miles beyond what the sensor tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bound {
    LessThan,
    MoreThan,
}

pub struct Trend {
    pub becoming: bool,
    /// None: it could not be read.
    pub change: Option<TrendNewCondition>,
    pub no_weather: bool,
    pub no_cloud: bool,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Unreadable {
    #[error("it is not the report of an aerodrome with a time")]
    NoHead,
    #[error("the groups are not those of a METAR")]
    Groups,
    #[error("a value is not possible")]
    Value,
}

/// The newest report of one aerodrome in an answer that holds many, by their own times; at one time the later line, which
/// corrects the earlier one. A `NIL` is no report.
pub fn newest(text: &str, icao: &str, now: Timestamp) -> Option<String> {
    let pieces: Vec<&str> = if text.contains('=') { text.split('=').collect() } else { text.lines().collect() };
    let mut best: Option<(Timestamp, String)> = None;
    for piece in pieces {
        let tokens: Vec<&str> = piece.split_whitespace().collect();
        let Some(head) = Head::of(&tokens, now) else { continue };
        let is_later = best.as_ref().is_none_or(|(time, _)| head.observed >= *time);
        if head.station == icao && !head.told().contains(&"NIL") && is_later {
            best = Some((head.observed, tokens.join(" ")));
        }
    }
    best.map(|(_, report)| report)
}

struct Head<'a> {
    station: &'a str,
    observed: Timestamp,
    rest: &'a [&'a str],
}

impl<'a> Head<'a> {
    fn of(tokens: &'a [&'a str], now: Timestamp) -> Option<Self> {
        let first = tokens.iter().position(|token| !["METAR", "SPECI", "COR", "AUTO"].contains(token))?;
        let [station, time, rest @ ..] = &tokens[first..] else { return None };
        let is_station = station.len() == 4 && station.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit());
        let observed = observed_at(time, now)?;
        is_station.then_some(Self { station, observed, rest })
    }

    /// The groups before the remarks.
    fn told(&self) -> &'a [&'a str] {
        self.rest.split(|token| *token == "RMK").next().unwrap_or_default()
    }
}

/// `201350Z`: the last 20th that is not ahead of now.
fn observed_at(time: &str, now: Timestamp) -> Option<Timestamp> {
    let digits = time.strip_suffix('Z').filter(|d| d.len() == 6 && d.bytes().all(|b| b.is_ascii_digit()))?;
    let number = |at: usize| digits[at..at + 2].parse::<i8>().ok();
    let (day, hour, minute) = (number(0)?, number(2)?, number(4)?);
    let tomorrow = now.to_zoned(TimeZone::UTC).date().tomorrow().ok()?;
    // Two months hold every day of the month at least once.
    (0..=62).find_map(|back| {
        let date = tomorrow.checked_sub(Span::new().days(back)).ok().filter(|date| date.day() == day)?;
        let at = DateTime::new(date.year(), date.month(), day, hour, minute, 0, 0).ok()?;
        let at = at.to_zoned(TimeZone::UTC).ok()?.timestamp();
        (at.duration_since(now) <= AHEAD_MAX).then_some(at)
    })
}

/// # Errors
/// When the report cannot be read as a whole, up to its trends.
pub fn decode(raw: &str, now: Timestamp) -> Result<Report, Unreadable> {
    let text = raw.trim().trim_end_matches('=');
    // The crate panics on `VRB` inside a range of directions.
    if text.len() > CHARS_MAX || !text.is_ascii() || text.contains("VRBV") || text.contains("VVRB") {
        return Err(Unreadable::Groups);
    }
    let tokens: Vec<&str> = text.split_whitespace().collect();
    let head = Head::of(&tokens, now).ok_or(Unreadable::NoHead)?;
    let told = head.told();
    let first_trend = told.iter().position(is_trend).unwrap_or(told.len());
    let (present, trends) = told.split_at(first_trend);
    let mut notes = Notes::default();
    let groups: Vec<String> = present.iter().filter_map(|token| notes.take(token, present)).collect();
    let metar = parse(head.station, &groups.join(" ")).ok_or(Unreadable::Groups)?;
    if !is_possible(&metar) || contradicts_itself(&metar, notes.sky.is_some()) {
        return Err(Unreadable::Value);
    }
    let trends = trends.chunk_by(|_, next| !is_trend(next)).map(|groups| trend(head.station, groups)).collect();
    let Notes { sky, bound, over_unit, closed, nosig } = notes;
    Ok(Report { observed: head.observed, metar, sky, bound, over_unit, closed, nosig, trends })
}

#[derive(Default)]
struct Notes {
    sky: Option<String>,
    bound: Option<Bound>,
    over_unit: &'static str,
    closed: Option<&'static str>,
    nosig: bool,
}

impl Notes {
    /// A group of the present weather as the crate knows it; None where it is a note or is not spoken.
    fn take(&mut self, token: &str, all: &[&str]) -> Option<String> {
        let number =
            |mark| move |t: &&str| t.len() == 5 && t.starts_with(mark) && t[1..].bytes().all(|b| b.is_ascii_digit());
        match token {
            "AUTO" | "COR" | "CCA" | "CCB" | "CCC" => return None,
            "NOSIG" => {
                self.nosig = true;
                return None;
            }
            "R/SNOCLO" | "SNOCLO" => {
                self.closed = Some("Aerodrome closed by snow");
                return None;
            }
            // `SKC` where the visibility is missing would be CAVOK to the crate.
            "SKC" | "CLR" | "NCD" | "NSC" => {
                self.sky = Some(token.to_owned());
                return Some(if token == "NSC" { token } else { "NCD" }.to_owned());
            }
            "///CB" | "///TCU" => return Some(format!("///{token}")),
            _ if is_colour(token) => {
                let black =
                    token.starts_with("BLACK").then_some("Aerodrome reported unusable for reasons other than weather");
                self.closed = self.closed.or(black);
                return None;
            }
            // Of two pressures one is enough.
            _ if number('A')(&token) && all.iter().any(number('Q')) => return None,
            _ => {}
        }
        self.over_unit = ["P99MPS", "P199KPH"].into_iter().find(|over| token.ends_with(over)).unwrap_or(self.over_unit);
        for (mark, bound) in [('M', Bound::LessThan), ('P', Bound::MoreThan)] {
            if let Some(miles) = token.strip_prefix(mark).filter(|miles| miles.ends_with("SM")) {
                self.bound = Some(bound);
                return Some(miles.to_owned());
            }
        }
        Some(token.to_owned())
    }
}

/// Colour states of military aerodromes, also with `BLACK` before and a number after.
fn is_colour(token: &str) -> bool {
    let code = token.strip_prefix("BLACK").unwrap_or(token).trim_end_matches(['1', '2', '+']);
    ["BLU", "WHT", "GRN", "YLO", "AMB", "RED", "BLACK"].contains(&code)
}

fn is_trend(token: &&str) -> bool {
    ["TEMPO", "BECMG"].contains(token)
}

fn trend(station: &str, groups: &[&str]) -> Trend {
    let has = |word| groups.contains(&word);
    let kept: Vec<&str> =
        groups.iter().copied().filter(|group| !["NSW", "NSC"].contains(group) && !is_colour(group)).collect();
    let is_over = |group: &&str| group.ends_with("P99MPS") || group.ends_with("P199KPH");
    let metar = if kept.iter().any(is_over) { None } else { parse(station, &kept.join(" ")) };
    let change = metar.and_then(|metar| match <[_; 1]>::try_from(metar.trends) {
        Ok([metar::Trend::Becoming(change) | metar::Trend::Temporarily(change)]) => Some(change),
        _ => None,
    });
    Trend { becoming: has("BECMG"), change, no_weather: has("NSW"), no_cloud: has("NSC") }
}

fn parse(station: &str, groups: &str) -> Option<Metar> {
    // The time has been read; the crate asks for one, and for a blank at the end.
    let text = format!("{station} 010000Z {groups} ");
    // Its panic that we know is kept away above; another one must not end the server.
    std::panic::catch_unwind(|| Metar::parse(&text).ok()).ok().flatten()
}

/// Whether the values can be those of an aerodrome on earth.
fn is_possible(metar: &Metar) -> bool {
    let pressure = match metar.pressure {
        Pressure::Hectopascals(Data::Known(value)) => (850..=1090).contains(&value),
        Pressure::InchesOfMercury(Data::Known(value)) => (25.0..=32.5).contains(&value),
        _ => true,
    };
    let temperature = match (&metar.temperature, &metar.dewpoint) {
        (Data::Known(air), Data::Known(dew)) => dew <= air && (-80..=60).contains(air),
        (Data::Known(air), Data::Unknown) => (-80..=60).contains(air),
        _ => true,
    };
    pressure && temperature && is_wind(&metar.wind)
}

/// Gusts are stronger than the mean, and only calm comes from no direction.
fn is_wind(wind: &Wind) -> bool {
    use metar::WindSpeed::{Greater, KilometresPerHour, Knots, MetresPerSecond};
    let Wind::Present { dir, speed, .. } = wind else { return true };
    let from_nowhere = *dir == WindDirection::Heading(Data::Known(0));
    match *speed {
        Greater => !from_nowhere,
        Knots { speed, gusting } | MetresPerSecond { speed, gusting } | KilometresPerHour { speed, gusting } => {
            let stronger = !matches!((speed, gusting), (Data::Known(mean), Some(Data::Known(gust))) if gust < mean);
            let calm = speed == Data::Known(0) && gusting.is_none();
            stronger && (calm || !from_nowhere)
        }
    }
}

/// CAVOK or a sky without clouds beside clouds or a low visibility: one of the two is wrong, and nobody knows which.
fn contradicts_itself(metar: &Metar, is_clear: bool) -> bool {
    let is_cavok = metar.visibility == Data::Known(Visibility::CAVOK);
    let clouds = !metar.cloud_layers.is_empty() || metar.vert_visibility.is_some();
    ((is_cavok || is_clear) && clouds) || (is_cavok && !metar.reduced_directional_visibility.is_empty())
}

/// Whole minutes since the observation.
pub fn age_minutes(raw: &str, now: Timestamp) -> Option<i64> {
    let tokens: Vec<&str> = raw.split_whitespace().collect();
    Head::of(&tokens, now).map(|head| minutes_between(head.observed, now))
}

pub fn minutes_between(observed: Timestamp, now: Timestamp) -> i64 {
    now.duration_since(observed).as_mins().max(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{config::Aerodrome, phraseology};

    fn now() -> Timestamp {
        "2026-11-20T14:40:00Z".parse().unwrap()
    }

    fn spoken(raw: &str, explicit: bool) -> String {
        let aerodrome = Aerodrome { name: "Field".into(), ..Aerodrome::default() };
        match decode(raw, now()) {
            Ok(report) => phraseology::atis(&report, &aerodrome.name, &aerodrome, explicit),
            Err(why) => format!("UNREADABLE: {why}"),
        }
    }

    /// M26: each report of the collection has exactly the words that were looked over, or is refused.
    #[test]
    fn reports_of_the_world_are_spoken_word_by_word() {
        let collection = include_str!("../tests/reports.txt").replace("\n  ", " ");
        let reports = collection.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let told: String = reports.map(|raw| format!("{raw}\n    {}\n", spoken(raw, true))).collect();
        insta::assert_snapshot!("spoken", told);
    }

    #[test]
    fn the_newest_report_is_the_latest_by_its_own_time_and_a_correction_wins() {
        let text = "ENGM 201320Z A=\nENGM 201350Z B=\nMETAR COR ENGM 201350Z C=\nENBR 201355Z D=\nENGM 201250Z E=\n\
                    ENGM 201420Z NIL=\n";
        assert_eq!(newest(text, "ENGM", now()).as_deref(), Some("METAR COR ENGM 201350Z C"));
        assert_eq!(newest(text, "ENBR", now()).as_deref(), Some("ENBR 201355Z D"));
        assert_eq!(newest(text, "ENVA", now()), None);
    }

    #[test]
    fn a_report_over_several_lines_is_one_and_lines_need_no_sign_at_the_end() {
        let folded = "ENGM 201350Z 19012KT\n  CAVOK 08/03 Q1013=\n";
        assert_eq!(newest(folded, "ENGM", now()).as_deref(), Some("ENGM 201350Z 19012KT CAVOK 08/03 Q1013"));
        let bare = "ENGM 201320Z A\nENGM 201350Z B RMK NIL\n";
        assert_eq!(newest(bare, "ENGM", now()).as_deref(), Some("ENGM 201350Z B RMK NIL"));
    }

    #[test]
    fn the_day_of_a_report_is_the_last_one_that_is_not_ahead() {
        let at = |time: &str, now: &str| observed_at(time, now.parse().unwrap()).map(|at| at.to_string());
        let told = |text: &str| Some(text.to_owned());
        assert_eq!(at("201350Z", "2026-11-20T14:40:00Z"), told("2026-11-20T13:50:00Z"));
        assert_eq!(at("302350Z", "2026-12-01T00:10:00Z"), told("2026-11-30T23:50:00Z"));
        assert_eq!(
            at("010000Z", "2026-11-30T23:55:00Z"),
            told("2026-12-01T00:00:00Z"),
            "the clock of the sender is ahead"
        );
        assert_eq!(at("201600Z", "2026-11-20T14:40:00Z"), told("2026-10-20T16:00:00Z"), "too far ahead for a clock");
        assert_eq!(at("312350Z", "2026-03-02T00:00:00Z"), told("2026-01-31T23:50:00Z"));
        for wrong in ["201350", "2013:0Z", "002350Z", "202400Z", "201360Z", "2013500Z", "٢01350Z"] {
            assert_eq!(at(wrong, "2026-11-20T14:40:00Z"), None, "{wrong}");
        }
    }

    #[test]
    fn a_trend_that_cannot_be_read_is_told_as_missing_and_the_rest_is_spoken() {
        let said = spoken("ENGM 201350Z 19012KT CAVOK 08/03 Q1013 BECMG GARBAGE TEMPO 4000", false);
        assert!(said.contains("Trend not available. Temporarily visibility four thousand metres."), "{said}");
    }

    /// Reports come from the network: whatever is cut, doubled or changed in them must not end the server.
    #[test]
    fn no_report_however_broken_ends_the_server() {
        let collection = include_str!("../tests/reports.txt").replace("\n  ", " ");
        for raw in collection.lines().filter(|line| line.contains('Z')) {
            let groups: Vec<&str> = raw.split(' ').collect();
            for at in 0..groups.len() {
                let mut cut = groups.clone();
                let taken = cut.remove(at);
                spoken(&cut.join(" "), true);
                cut.insert(0, taken);
                spoken(&cut.join(" "), true);
                spoken(&raw.chars().take(at * 5).collect::<String>(), true);
            }
        }
        spoken(&"ENGM 201350Z 19012KT ".repeat(1000), true);
        spoken("ENGM 201350Z 190\u{661}2KT æøå", true);
        spoken("", true);
    }

    /// M26: no weather rather than wrong weather.
    #[test]
    fn a_report_that_contradicts_itself_is_refused() {
        for groups in [
            "19012KT CAVOK FEW030CB 08/03 Q1013",
            "19012KT CAVOK 0800N 08/03 Q1013",
            "19012KT 9999 SKC BKN002 08/03 Q1013",
            "19012KT 9999 VV002 NSC 08/03 Q1013",
            "19012G08KT CAVOK 08/03 Q1013",
            "00012KT CAVOK 08/03 Q1013",
            "00000G15KT CAVOK 08/03 Q1013",
            "19012KT CAVOK 03/08 Q1013",
            "19012KT CAVOK 08/03 Q0799",
            "19012KT CAVOK 08/03 A2499",
        ] {
            let report = decode(&format!("ENGM 201350Z {groups}"), now());
            assert_eq!(report.err(), Some(Unreadable::Value), "{groups}");
        }
        let said = spoken("ENGM 201350Z 19012KT CAVOK 08/03 Q1013 BECMG NOSIG", false);
        assert!(said.contains("Trend not available"), "{said}");
        assert!(
            spoken("ENGM 201350Z VRB00KT CAVOK DRSN 08/03 Q1013", false).contains("calm. CAV OK. Low drifting snow.")
        );
    }
}
