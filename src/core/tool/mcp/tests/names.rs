//! What a tool is called.

use super::*;

fn name(server: &str, tool: &str) -> String {
    exposed(server, tool).unwrap().name
}

/// M12, M15: no dots; `mcp_`, the server, the tool.
#[test]
fn a_tool_is_called_by_its_server_and_its_own_name() {
    assert_eq!(name("aviation_atis", "get_atis"), "mcp_aviation_atis_get_atis");
    assert_eq!(name("aviation-atis", "get_atis"), "mcp_aviation_atis_get_atis");
    assert_eq!(name("weather", "get_weather_by_city"), "mcp_weather_get_weather_by_city");
}

/// M14, M answer 2: server and tool are made lower snake case, whatever they were.
#[test]
fn names_are_made_lower_snake_case() {
    for (written, normal) in [
        ("getAtis", "get_atis"),
        ("GetATIS", "get_atis"),
        ("METARReport", "metarreport"),
        ("ICAO4Letter", "icao4_letter"),
        ("get.atis/v2", "get_atis_v2"),
        ("  --get  atis!! ", "get_atis"),
        ("get__atis_", "get_atis"),
        ("Wetter für Köln", "wetter_f_r_k_ln"),
        ("天気", ""),
        ("", ""),
    ] {
        assert_eq!(snake(written), normal, "{written:?}");
    }
    assert_eq!(name("aviationAtis", "getAtis"), "mcp_aviation_atis_get_atis");
}

/// M answer 2: nothing left of a name is no name.
#[test]
fn a_name_without_letters_and_digits_gives_none() {
    assert_eq!(exposed("weather", "天気"), None);
    assert_eq!(exposed("---", "get_atis"), None);
}

/// M15, M answer 2: 64 characters are kept whole; of 65, the first 55 and eight digits of the hash of `server/tool`.
#[test]
fn a_name_that_is_too_long_ends_in_a_hash() {
    let tool = "a".repeat(64 - "mcp_weather_".len());
    let whole = exposed("weather", &tool).unwrap();
    assert_eq!((whole.name.len(), whole.shortened), (64, false));
    let longer = exposed("weather", &format!("{tool}b")).unwrap();
    // What sha256sum says of weather/aaa…b.
    let expected = format!("mcp_weather_{}_206d5ccf", "a".repeat(55 - "mcp_weather_".len()));
    assert_eq!((longer.name.as_str(), longer.shortened), (expected.as_str(), true));
    assert_ne!(longer.name, name("weather", &format!("{tool}c")), "the hash is over the whole");
    assert_ne!(name("weather", &format!("{tool}Bcd")), name("weather", &format!("{tool}bcd")), "as reported");
}

/// M15, M answer 3: a name of the operator's is taken as it is or not at all.
#[test]
fn what_can_be_exposed_is_short_and_plain() {
    for good in ["a", "_", "0", "mcp_aviation_atis", &"x".repeat(64)] {
        assert!(is_exposable(good), "{good}");
    }
    for bad in ["", "Get", "get-atis", "aviation.atis", "get atis", "é", &"x".repeat(65)] {
        assert!(!is_exposable(bad), "{bad}");
    }
}
