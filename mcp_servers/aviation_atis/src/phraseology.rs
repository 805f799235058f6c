//! The words of an ATIS. The same report and configuration give the same words.
//!
//! Figures are spoken one by one, whole hundreds and thousands of heights and distances as such; letters by the
//! spelling alphabet. What is missing as a whole (`visibility`) is left out or told, as configured; what is missing in
//! the middle of a group that is spoken (`wind direction`) is always told, since leaving it out would change the rest.
//! Not spoken: runway state groups, colour states, the state of the sea, remarks.

use crate::{
    config::{Aerodrome, RunwaysInUse},
    report::{Bound, Report, Trend},
    weather::{conditions, weather},
};
use jiff::tz::TimeZone;
use metar::{
    CloudDensity, CloudLayer, CloudType, Clouds, CompassDirection, Data, Metar, Pressure, RunwayVisualRange, RvrTrend,
    RvrUnit, RvrValue, RvrValueInner, TrendTime, VerticalVisibility, Visibility, WeatherIntensity, Wind, WindDirection,
    WindSpeed, WindshearWarnings,
};

const LETTERS: [&str; 26] = [
    "Alfa", "Bravo", "Charlie", "Delta", "Echo", "Foxtrot", "Golf", "Hotel", "India", "Juliett", "Kilo", "Lima",
    "Mike", "November", "Oscar", "Papa", "Quebec", "Romeo", "Sierra", "Tango", "Uniform", "Victor", "Whiskey", "X-ray",
    "Yankee", "Zulu",
];
const FIGURES: [&str; 10] = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "niner"];

/// `ENGM` → Echo November Golf Mike; `118.3` → one one eight decimal three.
pub fn spelled(text: &str) -> String {
    let word = |c: char| match c {
        'A'..='Z' => LETTERS[c as usize - 'A' as usize],
        '0'..='9' => FIGURES[c as usize - '0' as usize],
        '.' => "decimal",
        _ => "",
    };
    let words: Vec<&str> = text.chars().map(word).filter(|word| !word.is_empty()).collect();
    words.join(" ")
}

/// The letter of the information: A for the half hour that begins at 00:00 UTC, then one letter each half hour, A again
/// after Z and at midnight. Reports of one half hour have one letter.
pub fn information(report: &Report) -> &'static str {
    let at = report.observed.to_zoned(TimeZone::UTC);
    let half_hours = usize::try_from(at.hour()).unwrap_or(0) * 2 + usize::from(at.minute() >= 30);
    LETTERS[half_hours % LETTERS.len()]
}

/// What is said when there is no report young enough.
pub fn no_report(name: &str, aerodrome: &Aerodrome) -> String {
    let mut said = vec![name.to_owned(), "No current weather report is available".to_owned()];
    said.extend(aerodrome.remarks.iter().cloned());
    sentences(said)
}

pub fn atis(report: &Report, name: &str, aerodrome: &Aerodrome, explicit: bool) -> String {
    let metar = &report.metar;
    let letter = information(report);
    let at = report.observed.to_zoned(TimeZone::UTC);
    let missing = |what: &str| explicit.then(|| format!("{what} not available"));
    let mut said = vec![
        format!("{name} information {letter}"),
        format!("Observed at {}", spelled(&format!("{:02}{:02}", at.hour(), at.minute()))),
    ];
    said.extend(report.closed.map(str::to_owned));
    said.extend(runways(&aerodrome.runways_in_use, &metar.wind));
    said.extend(aerodrome.transition_level.map(|level| format!("Transition level {}", spelled(&level.to_string()))));
    said.extend(
        aerodrome.transition_altitude.map(|feet| format!("Transition altitude {} feet", distance(feet.into()))),
    );
    said.extend(aerodrome.frequencies.iter().map(|f| format!("{} {}", f.name, spelled(&f.mhz))));
    said.extend(wind(&metar.wind, report.over_unit).map(|w| format!("Wind {w}")).or_else(|| missing("Wind")));
    said.extend(visibility(report).or_else(|| missing("Visibility")));
    said.extend(metar.rvr.iter().map(|rvr| format!("Runway visual range {}", runway_visual_range(rvr))));
    match &metar.weather {
        Data::Known(all) => {
            let now: Vec<String> =
                all.iter().filter(|w| w.intensity != WeatherIntensity::Recent).map(weather).collect();
            said.extend((!now.is_empty()).then(|| capital(&now.join(", "))));
        }
        Data::Unknown => said.extend(missing("Present weather")),
    }
    if !matches!(metar.visibility, Data::Known(Visibility::CAVOK)) {
        said.extend(clouds(report).or_else(|| missing("Cloud information")));
    }
    let known = |value: &Data<i32>, what: &str| match value {
        Data::Known(degrees) => Some(format!("{what} {}", signed(*degrees))),
        Data::Unknown => None,
    };
    let temperature = known(&metar.temperature, "Temperature").or_else(|| missing("Temperature"));
    let dew_point = known(&metar.dewpoint, "Dew point").or_else(|| missing("Dew point"));
    said.extend(temperature.into_iter().chain(dew_point));
    said.extend(pressure(&metar.pressure).or_else(|| missing("QNH")));
    said.extend(recent(metar));
    said.extend(wind_shear(metar));
    said.extend(report.nosig.then(|| "No significant change".into()));
    said.extend(report.trends.iter().filter_map(trend));
    said.extend(aerodrome.remarks.iter().cloned());
    said.push(format!("End of information {letter}"));
    sentences(said)
}

fn sentences(said: Vec<String>) -> String {
    let ended = |text: String| if text.ends_with(['.', '!', '?']) { text } else { text + "." };
    said.into_iter().map(ended).collect::<Vec<_>>().join(" ")
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_ascii_uppercase().to_string() + letters.as_str()).unwrap_or_default()
}

/// Heights and distances: 1200 → one thousand two hundred, 12000 → one two thousand, 550 → five five zero.
fn distance(value: u32) -> String {
    let (thousands, hundreds) = (value / 1000, value % 1000 / 100);
    if value < 100 || !value.is_multiple_of(100) {
        return spelled(&value.to_string());
    }
    let mut words = Vec::new();
    if thousands > 0 {
        words.push(format!("{} thousand", spelled(&thousands.to_string())));
    }
    if hundreds > 0 {
        words.push(format!("{} hundred", spelled(&hundreds.to_string())));
    }
    words.join(" ")
}

fn signed(value: i32) -> String {
    let sign = if value < 0 { "minus " } else { "" };
    format!("{sign}{}", spelled(&value.unsigned_abs().to_string()))
}

/// `19R` → one niner right.
fn runway(designator: &str) -> String {
    let side = match designator.chars().last() {
        Some('L') => " left",
        Some('C') => " centre",
        Some('R') => " right",
        _ => "",
    };
    format!("{}{side}", spelled(designator.trim_end_matches(['L', 'C', 'R'])))
}

/// The first entry that fits the wind; without a direction only one that asks for none.
fn runways(entries: &[RunwaysInUse], wind: &Wind) -> Vec<String> {
    let from = match wind {
        Wind::Present { dir: WindDirection::Heading(Data::Known(degrees)), speed, .. } if !is_calm(speed) => {
            Some(*degrees)
        }
        _ => None,
    };
    let fits = |entry: &&RunwaysInUse| match (entry.wind, from) {
        (None, _) => true,
        (Some([first, last]), Some(degrees)) => {
            let (first, last) = (u32::from(first), u32::from(last));
            if first <= last { (first..=last).contains(&degrees) } else { degrees >= first || degrees <= last }
        }
        (Some(_), None) => false,
    };
    let Some(entry) = entries.iter().find(fits) else { return Vec::new() };
    let named: Vec<String> = entry.runways.iter().map(|designator| runway(designator)).collect();
    let many = if named.len() > 1 { "s" } else { "" };
    let mut said = vec![format!("Runway{many} in use {}", named.join(" and "))];
    said.extend(entry.say.clone());
    said
}

fn is_calm(speed: &WindSpeed) -> bool {
    matches!(
        speed,
        WindSpeed::Knots { speed: Data::Known(0), gusting: None }
            | WindSpeed::MetresPerSecond { speed: Data::Known(0), gusting: None }
            | WindSpeed::KilometresPerHour { speed: Data::Known(0), gusting: None }
    )
}

fn wind(wind: &Wind, over_unit: &str) -> Option<String> {
    let Wind::Present { dir, speed, varying } = wind else { return Some("calm".into()) };
    if is_calm(speed) {
        return Some("calm".into());
    }
    let (speed, gust, unit) = match *speed {
        WindSpeed::Knots { speed, gusting } => (speed, gusting, "knots"),
        WindSpeed::MetresPerSecond { speed, gusting } => (speed, gusting, "metres per second"),
        WindSpeed::KilometresPerHour { speed, gusting } => (speed, gusting, "kilometres per hour"),
        WindSpeed::Greater => (Data::Unknown, None, ""),
    };
    let direction = match dir {
        WindDirection::Variable => "variable".to_owned(),
        WindDirection::Heading(Data::Known(degrees)) => format!("{} degrees", spelled(&format!("{degrees:03}"))),
        WindDirection::Heading(Data::Unknown) if unit.is_empty() || speed != Data::Unknown => {
            "direction not available".to_owned()
        }
        WindDirection::Heading(Data::Unknown) => return None,
    };
    let strength = match speed {
        Data::Known(1) => format!("one {}", unit.replacen("knots", "knot", 1)),
        Data::Known(speed) => format!("{} {unit}", spelled(&speed.to_string())),
        Data::Unknown if unit.is_empty() => match over_unit {
            "P99MPS" => "more than niner niner metres per second".to_owned(),
            "P199KPH" => "more than one niner niner kilometres per hour".to_owned(),
            _ => "more than niner niner knots".to_owned(),
        },
        Data::Unknown => "speed not available".to_owned(),
    };
    let gust = match gust {
        Some(Data::Known(gust)) => format!(", gusting {}", spelled(&gust.to_string())),
        Some(Data::Unknown) => ", gusting, speed of gusts not available".to_owned(),
        None => String::new(),
    };
    let varying = match varying {
        Some((Data::Known(from), Data::Known(to))) => {
            let degrees = |value: &u32| spelled(&format!("{value:03}"));
            format!(", variable between {} and {} degrees", degrees(from), degrees(to))
        }
        _ => String::new(),
    };
    Some(format!("{direction}, {strength}{gust}{varying}"))
}

fn visibility(report: &Report) -> Option<String> {
    let metar = &report.metar;
    let reduced = &metar.reduced_directional_visibility;
    // `9999NDV`: the crate has it among those without a direction.
    let undirected = || reduced.iter().find_map(|(direction, value)| direction.is_none().then_some(value));
    let main = match &metar.visibility {
        Data::Known(value) => value,
        Data::Unknown => match undirected() {
            Some(Data::Known(value)) => value,
            _ => return None,
        },
    };
    if matches!(main, Visibility::CAVOK) {
        return Some("CAV OK".into());
    }
    let mut said = format!("Visibility {}", range(main, report.bound)?);
    for (direction, value) in reduced {
        if let (Some(direction), Data::Known(value)) = (direction, value) {
            said += &format!(", {} to the {}", range(value, None)?, compass(*direction));
        }
    }
    Some(said)
}

fn range(value: &Visibility, bound: Option<Bound>) -> Option<String> {
    let said = match value {
        Visibility::CAVOK => "CAV OK".into(),
        Visibility::Metres(9999) => "one zero kilometres or more".into(),
        Visibility::Metres(0) => "less than five zero metres".into(),
        Visibility::Metres(metres) if *metres >= 5000 && metres.is_multiple_of(1000) => {
            format!("{} kilometres", spelled(&(metres / 1000).to_string()))
        }
        Visibility::Metres(metres) => format!("{} metres", distance((*metres).into())),
        Visibility::StatuteMiles(miles) => statute_miles(*miles)?,
    };
    Some(match bound {
        Some(Bound::LessThan) => format!("less than {said}"),
        Some(Bound::MoreThan) => format!("more than {said}"),
        None => said,
    })
}

/// None where it is no whole number of sixteenths, which no station reports.
fn statute_miles(miles: f32) -> Option<String> {
    let sixteenths = miles * 16.0;
    if sixteenths.fract() != 0.0 || !(0.0..=1600.0).contains(&sixteenths) {
        return None;
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a whole number within 0 and 1600")]
    let sixteenths = sixteenths as u32;
    let (whole, rest) = (sixteenths / 16, sixteenths % 16);
    let fraction = match rest {
        0 => None,
        4 => Some("one quarter".to_owned()),
        8 => Some("one half".to_owned()),
        12 => Some("three quarters".to_owned()),
        _ => {
            let (top, name) = if rest % 2 == 0 { (rest / 2, "eighth") } else { (rest, "sixteenth") };
            Some(format!("{} {name}{}", spelled(&top.to_string()), if top > 1 { "s" } else { "" }))
        }
    };
    let whole_words = spelled(&whole.to_string());
    Some(match (whole, fraction) {
        (1, None) => "one statute mile".into(),
        (_, None) => format!("{whole_words} statute miles"),
        (0, Some(fraction)) => format!("{fraction} statute mile"),
        (_, Some(fraction)) => format!("{whole_words} and {fraction} statute miles"),
    })
}

fn compass(direction: CompassDirection) -> &'static str {
    match direction {
        CompassDirection::North => "north",
        CompassDirection::NorthEast => "north-east",
        CompassDirection::East => "east",
        CompassDirection::SouthEast => "south-east",
        CompassDirection::South => "south",
        CompassDirection::SouthWest => "south-west",
        CompassDirection::West => "west",
        CompassDirection::NorthWest => "north-west",
    }
}

fn runway_visual_range(rvr: &RunwayVisualRange) -> String {
    let unit = match rvr.unit {
        RvrUnit::Metres => "metres",
        RvrUnit::Feet => "feet",
    };
    let one = |value: &RvrValueInner| match value {
        RvrValueInner::Exactly(value) => distance(*value),
        RvrValueInner::GreaterThan(value) => format!("more than {}", distance(*value)),
        RvrValueInner::LessThan(value) => format!("less than {}", distance(*value)),
    };
    let value = match &rvr.value {
        Data::Known(RvrValue::Single(value)) => format!("{} {unit}", one(value)),
        Data::Known(RvrValue::Between(low, high)) => format!("variable from {} to {} {unit}", one(low), one(high)),
        Data::Unknown => "not available".into(),
    };
    let tendency = match rvr.trend {
        Data::Known(RvrTrend::Upwards) => ", increasing",
        Data::Known(RvrTrend::Downwards) => ", decreasing",
        _ => "",
    };
    format!("runway {}, {value}{tendency}", runway(&rvr.runway))
}

fn clouds(report: &Report) -> Option<String> {
    let metar = &report.metar;
    let known: Vec<String> = metar.cloud_layers.iter().filter_map(layer).collect();
    let mut said: Vec<String> = metar.vert_visibility.iter().map(|v| capital(&vertical_visibility(v))).collect();
    if !known.is_empty() {
        said.push(format!("Clouds {}", known.join(", ")));
    }
    if said.is_empty() {
        return match (report.sky.as_deref(), metar.clouds) {
            (Some("SKC"), _) => Some("Sky clear".into()),
            (Some("NSC"), _) | (_, Clouds::NoSignificantCloud) => Some("No significant cloud".into()),
            (Some(_), _) => Some("No clouds detected".into()),
            (None, _) => None,
        };
    }
    Some(said.join(". "))
}

/// None: nothing is known of it.
fn layer(layer: &CloudLayer) -> Option<String> {
    let amount = match layer.density {
        Data::Known(CloudDensity::Few) => Some("few"),
        Data::Known(CloudDensity::Scattered) => Some("scattered"),
        Data::Known(CloudDensity::Broken) => Some("broken"),
        Data::Known(CloudDensity::Overcast) => Some("overcast"),
        Data::Unknown => None,
    };
    let kind = match layer.kind {
        Data::Known(CloudType::Cumulonimbus) => Some("cumulonimbus"),
        Data::Known(CloudType::ToweringCumulus) => Some("towering cumulus"),
        _ => None,
    };
    let height = match layer.height {
        Data::Known(hundreds) => Some(height(hundreds)),
        Data::Unknown => None,
    };
    Some(match (amount, kind, height) {
        (None, None, None) => return None,
        (Some(amount), None, Some(height)) => format!("{amount} {height}"),
        (Some(amount), Some(kind), Some(height)) => format!("{amount} {kind} {height}"),
        (Some(amount), None, None) => format!("{amount} at unknown height"),
        (Some(amount), Some(kind), None) => format!("{amount} {kind} at unknown height"),
        (None, kind, Some(height)) => format!("{} of unknown amount {height}", kind.unwrap_or("layer")),
        (None, Some(kind), None) => format!("{kind} of unknown amount and height"),
    })
}

fn height(hundreds_of_feet: u32) -> String {
    match hundreds_of_feet {
        0 => "less than one hundred feet".into(),
        hundreds => format!("{} feet", distance(hundreds * 100)),
    }
}

fn vertical_visibility(value: &VerticalVisibility) -> String {
    match value {
        VerticalVisibility::Distance(hundreds) => format!("vertical visibility {}", height(*hundreds)),
        VerticalVisibility::ReducedByUnknownAmount => "sky obscured, vertical visibility not available".into(),
    }
}

fn pressure(pressure: &Pressure) -> Option<String> {
    match pressure {
        // The unit keeps three figures apart from those of an altimeter in inches.
        Pressure::Hectopascals(Data::Known(hpa @ ..1000)) => {
            Some(format!("QNH {} hectopascals", spelled(&hpa.to_string())))
        }
        Pressure::Hectopascals(Data::Known(hpa)) => Some(format!("QNH {}", spelled(&hpa.to_string()))),
        Pressure::InchesOfMercury(Data::Known(inches)) => {
            Some(format!("Altimeter {}", spelled(&format!("{:.0}", inches * 100.0))))
        }
        _ => None,
    }
}

fn recent(metar: &Metar) -> Option<String> {
    let among = match &metar.weather {
        Data::Known(all) => all.as_slice(),
        Data::Unknown => &[],
    };
    let among = among.iter().filter(|w| w.intensity == WeatherIntensity::Recent).map(|w| w.conditions.as_slice());
    let after = metar.recent_weather.iter().filter_map(|found| match found {
        Data::Known(found) => Some(found.as_slice()),
        Data::Unknown => None,
    });
    let said: Vec<String> = among.chain(after).map(|found| conditions(found, "recent")).collect();
    (!said.is_empty()).then(|| capital(&said.join(", ")))
}

fn wind_shear(metar: &Metar) -> Option<String> {
    match metar.windshear_warnings.as_ref()? {
        WindshearWarnings::AllRunways => Some("Wind shear all runways".into()),
        WindshearWarnings::SpecificRunways(groups) => {
            let named: Vec<String> = groups.iter().map(|group| runway(&group.runway_number)).collect();
            (!named.is_empty()).then(|| format!("Wind shear runway {}", named.join(" and ")))
        }
    }
}

/// None where a trend was of colour states alone.
fn trend(trend: &Trend) -> Option<String> {
    let Some(change) = &trend.change else { return Some("Trend not available".into()) };
    let mut said: Vec<String> = change
        .time
        .iter()
        .map(|time| match time {
            TrendTime::From(at) => format!("from {}", spelled(&format!("{at:04}"))),
            TrendTime::Until(at) => format!("until {}", spelled(&format!("{at:04}"))),
            TrendTime::At(at) => format!("at {}", spelled(&format!("{at:04}"))),
        })
        .collect();
    let times = said.len();
    said.extend(change.wind.as_ref().and_then(|change| wind(change, "")).map(|wind| format!("wind {wind}")));
    said.extend(change.visibility.as_ref().map(|value| match value {
        Visibility::CAVOK => "CAV OK".to_owned(),
        value => format!("visibility {}", range(value, None).unwrap_or_else(|| "not available".into())),
    }));
    said.extend(change.weather.iter().map(weather));
    said.extend(trend.no_weather.then(|| "no significant weather".into()));
    said.extend(change.cloud.iter().filter_map(layer).map(|layer| format!("cloud {layer}")));
    said.extend(trend.no_cloud.then(|| "no significant cloud".into()));
    said.extend(change.vertical_visibility.as_ref().map(vertical_visibility));
    let kind = if trend.becoming { "Becoming" } else { "Temporarily" };
    (said.len() > times).then(|| format!("{kind} {}", said.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::decode;

    fn spoken(raw: &str, aerodrome: &Aerodrome, explicit: bool) -> String {
        let report = decode(raw, "2026-11-20T14:40:00Z".parse().unwrap()).unwrap();
        atis(&report, &aerodrome.name, aerodrome, explicit)
    }

    fn gardermoen() -> Aerodrome {
        let entry = |wind, runways: &[&str], say: Option<&str>| RunwaysInUse {
            wind,
            runways: runways.iter().map(|&runway| runway.to_owned()).collect(),
            say: say.map(str::to_owned),
        };
        Aerodrome {
            name: "Oslo Gardermoen".into(),
            runways_in_use: vec![
                entry(Some([100, 280]), &["19L", "19R"], Some("Expect ILS approach")),
                entry(Some([281, 99]), &["01L"], None),
                entry(None, &["01R"], None),
            ],
            transition_level: Some(85),
            transition_altitude: Some(7000),
            frequencies: vec![crate::config::Frequency { name: "Tower".into(), mhz: "118.300".into() }],
            remarks: vec!["Taxiway Charlie closed.".into()],
        }
    }

    /// M26: the operator's words stand where an ATIS has them.
    #[test]
    fn a_configured_aerodrome_is_spoken_as_an_atis() {
        let said = spoken("ENGM 201350Z 19012G25KT CAVOK 08/M03 Q1013 NOSIG", &gardermoen(), false);
        assert_eq!(
            said,
            "Oslo Gardermoen information Bravo. Observed at one three five zero. Runways in use one niner left and one \
             niner right. Expect ILS approach. Transition level eight five. Transition altitude seven thousand feet. \
             Tower one one eight decimal three zero zero. Wind one niner zero degrees, one two knots, gusting two five. \
             CAV OK. Temperature eight. Dew point minus three. QNH one zero one three. No significant change. Taxiway \
             Charlie closed. End of information Bravo."
        );
    }

    #[test]
    fn the_first_runway_entry_that_fits_the_wind_is_spoken() {
        for (wind, runway) in [
            ("10005KT", "one niner left and"),
            ("28105KT", "zero one left"),
            ("36005KT", "zero one left"),
            ("09905KT", "zero one left"),
            ("00000KT", "zero one right"),
            ("VRB03KT", "zero one right"),
            ("/////KT", "zero one right"),
        ] {
            let said = spoken(&format!("ENGM 201350Z {wind} CAVOK 08/03 Q1013"), &gardermoen(), false);
            assert!(said.contains(&format!("in use {runway}")), "{wind}: {said}");
        }
    }

    /// M26: `defaults.explicit_not_available`.
    #[test]
    fn what_a_report_does_not_tell_is_left_out_or_told_as_configured() {
        let raw = "ENSO 201350Z AUTO /////KT //// // ////// ///// Q////";
        let aerodrome = Aerodrome { name: "Stord".into(), ..Aerodrome::default() };
        let short = "Stord information Bravo. Observed at one three five zero. End of information Bravo.";
        assert_eq!(spoken(raw, &aerodrome, false), short);
        let long = spoken(raw, &aerodrome, true);
        for what in ["Wind", "Visibility", "Present weather", "Cloud information", "Temperature", "Dew point", "QNH"] {
            assert!(long.contains(&format!("{what} not available.")), "{long}");
        }
    }

    /// M26: the letter follows from the time of observation alone.
    #[test]
    fn the_letter_goes_on_each_half_hour_and_begins_again_after_zulu() {
        for (time, letter) in
            [("0000", "Alfa"), ("0029", "Alfa"), ("0030", "Bravo"), ("1250", "Zulu"), ("1320", "Alfa")]
        {
            let report = decode(&format!("ENGM 20{time}Z CAVOK"), "2026-11-20T14:40:00Z".parse().unwrap()).unwrap();
            assert_eq!(information(&report), letter, "{time}");
        }
    }

    #[test]
    fn figures_are_spoken_one_by_one_and_round_heights_by_hundreds() {
        let said = [0, 50, 100, 550, 1000, 1200, 1225, 12000, 25000].map(distance);
        let meant = [
            "zero",
            "five zero",
            "one hundred",
            "five five zero",
            "one thousand",
            "one thousand two hundred",
            "one two two five",
            "one two thousand",
            "two five thousand",
        ];
        assert_eq!(said, meant);
    }
}
