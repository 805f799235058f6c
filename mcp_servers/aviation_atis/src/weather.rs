//! The words of present and recent weather: `-TSRA` is a thunderstorm with light rain.

use metar::{Weather, WeatherCondition, WeatherIntensity};

pub fn weather(weather: &Weather) -> String {
    use WeatherIntensity::{Heavy, InVicinity, Light, Moderate, Recent};
    let (before, after) = match weather.intensity {
        Light => ("light", ""),
        Heavy => ("heavy", ""),
        InVicinity => ("", " in the vicinity"),
        Recent => ("recent", ""),
        Moderate => ("", ""),
    };
    if weather.intensity == Heavy && weather.conditions == [WeatherCondition::FunnelCloud] {
        return "tornado or waterspout".into();
    }
    format!("{}{after}", conditions(&weather.conditions, before))
}

/// `TSRA` with light → thunderstorm with light rain; `SHRASN` → rain and snow showers.
pub fn conditions(conditions: &[WeatherCondition], intensity: &str) -> String {
    use WeatherCondition as W;
    let has = |condition: W| conditions.contains(&condition);
    let words: Vec<&str> = conditions.iter().filter_map(|condition| phenomenon(*condition)).collect();
    let mut thing = words.join(" and ");
    for (descriptor, word) in
        [(W::Freezing, "freezing"), (W::Blowing, "blowing"), (W::LowDrifting, "low drifting"), (W::Shallow, "shallow")]
    {
        if has(descriptor) {
            thing = format!("{word} {thing}");
        }
    }
    if has(W::Patches) {
        thing = format!("patches of {thing}");
    }
    if has(W::Partial) {
        thing = format!("partial {thing}");
    }
    if has(W::Showers) {
        thing = format!("{thing} showers");
    }
    let thing = thing.trim();
    let with = format!("{intensity} {thing}");
    let said = match (has(W::Thunderstorm), thing.is_empty(), intensity) {
        (true, false, "recent") => format!("recent thunderstorm with {thing}"),
        (true, false, _) => format!("thunderstorm with {}", with.trim()),
        (true, true, _) => format!("{intensity} thunderstorm"),
        (false, ..) => with,
    };
    said.trim().to_owned()
}

fn phenomenon(condition: WeatherCondition) -> Option<&'static str> {
    use WeatherCondition as W;
    Some(match condition {
        W::Shallow | W::Partial | W::Patches | W::LowDrifting | W::Blowing => return None,
        W::Showers | W::Thunderstorm | W::Freezing => return None,
        W::Rain => "rain",
        W::Drizzle => "drizzle",
        W::Snow => "snow",
        W::SnowGrains => "snow grains",
        W::IceCrystals => "ice crystals",
        W::IcePellets => "ice pellets",
        W::Hail => "hail",
        W::SnowPelletsOrSmallHail => "small hail",
        W::UnknownPrecipitation => "unknown precipitation",
        W::Fog => "fog",
        W::VolcanicAsh => "volcanic ash",
        W::Mist => "mist",
        W::Haze => "haze",
        W::WidespreadDust => "dust",
        W::Smoke => "smoke",
        W::Sand => "sand",
        W::Spray => "spray",
        W::Squall => "squalls",
        W::Dust => "dust whirls",
        W::Duststorm => "duststorm",
        W::Sandstorm => "sandstorm",
        W::FunnelCloud => "funnel cloud",
    })
}
