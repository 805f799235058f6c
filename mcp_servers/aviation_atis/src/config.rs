//! The configuration of the operator: read at start, and again at the first call after the file has changed. A broken
//! file keeps the configuration there was; what is wrong is told once, with its line, on stderr.

use jiff::Timestamp;
use serde::Deserialize;
use serde_yaml::Spanned;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

/// A thousand aerodromes with their remarks are less.
const FILE_BYTES_MAX: u64 = 1 << 20;
const NAME_CHARS_MAX: usize = 80;
const REMARK_CHARS_MAX: usize = 300;
/// A caller listens to all of them.
const REMARKS_MAX: usize = 20;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Where reports are fetched: `{base_url}/metar.txt?icao=ENGM`.
    #[serde(default)]
    base_url: Option<Spanned<String>>,
    /// A folder with `ENGM.metar` files to read instead; relative to this file.
    #[serde(default)]
    pub offline: Option<PathBuf>,
    #[serde(default)]
    pub defaults: Defaults,
    #[serde(default)]
    aerodromes: BTreeMap<String, Spanned<Aerodrome>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Defaults {
    /// Say what the report does not tell ("Visibility not available") instead of leaving it out.
    pub explicit_not_available: bool,
    /// Serve aerodromes that are not configured too, by their letters.
    pub allow_any: bool,
    /// A report older than this is not spoken as the present weather. Reports come every 30 or 60 minutes.
    pub max_age_minutes: i64,
}

impl Default for Defaults {
    fn default() -> Self {
        Self { explicit_not_available: false, allow_any: false, max_age_minutes: 120 }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Aerodrome {
    /// As it is spoken.
    pub name: String,
    /// The first entry that fits the wind is spoken.
    #[serde(default)]
    pub runways_in_use: Vec<RunwaysInUse>,
    /// Flight level, such as 70.
    #[serde(default)]
    pub transition_level: Option<u16>,
    /// Feet, such as 7000.
    #[serde(default)]
    pub transition_altitude: Option<u16>,
    #[serde(default)]
    pub frequencies: Vec<Frequency>,
    /// Sentences for the end, such as closed taxiways.
    #[serde(default)]
    pub remarks: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunwaysInUse {
    /// Degrees the wind comes from, clockwise from the first to the last; left out: any wind, calm and variable too.
    #[serde(default)]
    pub wind: Option<[u16; 2]>,
    /// Designators, such as 19R.
    pub runways: Vec<String>,
    /// A sentence about them, such as the approach to expect.
    #[serde(default)]
    pub say: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Frequency {
    pub name: String,
    /// Megahertz in quotes, such as "118.300".
    pub mhz: String,
}

impl Config {
    pub const BASE_URL: &str = "https://api.met.no/weatherapi/tafmetar/1.0";

    pub fn base_url(&self) -> &str {
        self.base_url.as_ref().map_or(Self::BASE_URL, |url| url.value.trim_end_matches('/'))
    }

    pub fn aerodrome(&self, icao: &str) -> Option<&Aerodrome> {
        self.aerodromes.get(icao).map(|aerodrome| &aerodrome.value)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.aerodromes.values().map(|aerodrome| aerodrome.value.name.as_str())
    }

    /// # Errors
    /// What is wrong, a line each: the first mistake of form, or else every value that cannot be.
    pub fn parse(text: &str) -> Result<Self, Vec<String>> {
        // A file of comments alone is an empty map.
        let options = serde_yaml::options! { strict_booleans: true, with_snippet: false };
        let config: Self = serde_yaml::from_str_with_options(text, options).map_err(|error| vec![error.to_string()])?;
        let problems = config.problems();
        if problems.is_empty() { Ok(config) } else { Err(problems) }
    }

    fn problems(&self) -> Vec<String> {
        let mut found = Vec::new();
        if let Some(url) = &self.base_url
            && !reqwest::Url::parse(&url.value).is_ok_and(|url| ["http", "https"].contains(&url.scheme()))
        {
            found.push(format!("line {}: base_url has to be an http or https address", url.referenced.line()));
        }
        if !(10..=1440).contains(&self.defaults.max_age_minutes) {
            found.push("defaults.max_age_minutes has to be within 10 and 1440".into());
        }
        if self.aerodromes.is_empty() && !self.defaults.allow_any {
            found.push("no aerodrome is configured; add one under aerodromes, or set defaults.allow_any".into());
        }
        for (icao, aerodrome) in &self.aerodromes {
            let line = aerodrome.referenced.line();
            let mut wrong = aerodrome.value.problems();
            if !is_icao(icao) {
                wrong.push("an aerodrome is named by four capital letters, such as ENGM".into());
            }
            found.extend(wrong.into_iter().map(|what| format!("line {line}: aerodromes.{icao}: {what}")));
        }
        found
    }
}

impl Aerodrome {
    fn problems(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut check = |right: bool, what: String| {
            if !right {
                wrong.push(what);
            }
        };
        let is_text = |text: &str, max: usize| {
            !text.trim().is_empty() && text.chars().count() <= max && !text.chars().any(char::is_control)
        };
        let named = |what: &str, max: usize| format!("{what} has to be 1 to {max} characters in one line");
        check(is_text(&self.name, NAME_CHARS_MAX), named("name", NAME_CHARS_MAX));
        check(self.remarks.len() <= REMARKS_MAX, format!("at most {REMARKS_MAX} remarks"));
        for remark in &self.remarks {
            check(is_text(remark, REMARK_CHARS_MAX), named("a remark", REMARK_CHARS_MAX));
        }
        let level = self.transition_level.is_none_or(|level| (10..=250).contains(&level));
        check(level, "transition_level has to be within 10 and 250".into());
        let altitude = self.transition_altitude.is_none_or(|feet| (1000..=20000).contains(&feet));
        check(altitude, "transition_altitude has to be within 1000 and 20000 feet".into());
        for entry in &self.runways_in_use {
            let wind = entry.wind.is_none_or(|ends| ends.iter().all(|degrees| (1..=360).contains(degrees)));
            check(wind, "runways_in_use.wind has to be two directions within 1 and 360".into());
            check(!entry.runways.is_empty(), "runways_in_use.runways has to name a runway".into());
            for runway in &entry.runways {
                check(is_runway(runway), format!("{runway:?} is no runway; write it as 01 or 19R"));
            }
            let say = entry.say.as_deref().is_none_or(|say| is_text(say, REMARK_CHARS_MAX));
            check(say, named("runways_in_use.say", REMARK_CHARS_MAX));
        }
        for frequency in &self.frequencies {
            check(is_text(&frequency.name, NAME_CHARS_MAX), named("frequencies.name", NAME_CHARS_MAX));
            let mhz = frequency.mhz.split_once('.').is_some_and(|(whole, part)| {
                let digits =
                    |text: &str| !text.is_empty() && text.len() <= 3 && text.bytes().all(|b| b.is_ascii_digit());
                digits(whole) && digits(part)
            });
            check(mhz, format!("{:?} is no frequency; write it as \"118.300\"", frequency.mhz));
        }
        wrong
    }
}

pub fn is_icao(text: &str) -> bool {
    text.len() == 4 && text.bytes().all(|byte| byte.is_ascii_uppercase())
}

fn is_runway(text: &str) -> bool {
    let number = text.strip_suffix(['L', 'C', 'R']).unwrap_or(text);
    number.len() == 2 && number.parse().is_ok_and(|number: u8| (1..=36).contains(&number))
}

/// What the program was started with; goes before the file.
#[derive(Debug, Clone, Default)]
pub struct Setting {
    pub offline: Option<PathBuf>,
    pub user_agent: Option<String>,
    /// A clock that stands, so that ages are the same each time.
    pub now: Option<Timestamp>,
    pub cache_ttl_seconds: u32,
}

/// The file and what was last read of it.
pub struct ConfigFile {
    path: PathBuf,
    setting: Setting,
    state: Mutex<(Stamp, Arc<Config>)>,
}

/// Changes with each write of the file.
type Stamp = Option<(SystemTime, u64)>;

impl ConfigFile {
    /// # Errors
    /// What is wrong with the file, a line each.
    pub fn open(path: &Path, setting: Setting) -> Result<Self, Vec<String>> {
        let stamp = stamp(path);
        let config = Arc::new(read(path, &setting)?);
        Ok(Self { path: path.to_owned(), setting, state: Mutex::new((stamp, config)) })
    }

    /// The configuration in force; looks whether the file has changed.
    pub fn current(&self) -> Arc<Config> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = stamp(&self.path);
        if state.0 != stamp {
            state.0 = stamp;
            match read(&self.path, &self.setting) {
                Ok(config) => {
                    state.1 = Arc::new(config);
                    tracing::info!("configuration read again");
                }
                Err(problems) => {
                    for problem in problems {
                        tracing::error!("{}: {problem}; the former configuration stays", self.path.display());
                    }
                }
            }
        }
        state.1.clone()
    }
}

fn stamp(path: &Path) -> Stamp {
    let found = fs::metadata(path).ok()?;
    Some((found.modified().ok()?, found.len()))
}

fn read(path: &Path, setting: &Setting) -> Result<Config, Vec<String>> {
    let size = fs::metadata(path).map_err(|error| vec![format!("cannot be read: {error}")])?.len();
    if size > FILE_BYTES_MAX {
        return Err(vec![format!("is longer than {FILE_BYTES_MAX} bytes")]);
    }
    let text = fs::read_to_string(path).map_err(|error| vec![format!("cannot be read: {error}")])?;
    let mut config = Config::parse(&text)?;
    let beside = |folder: PathBuf| path.parent().map_or(folder.clone(), |parent| parent.join(folder));
    config.offline = setting.offline.clone().or_else(|| config.offline.take().map(beside));
    if config.offline.is_none() && setting.user_agent.is_none() {
        return Err(vec![
            "METNO_USER_AGENT is not set: met.no asks for the name of the application and a contact, such as \
             \"tower-line/1.0 ops@example.com\"; set it, or give a folder of reports with --offline"
                .into(),
        ]);
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RIGHT: &str = "aerodromes:\n  ENGM:\n    name: Oslo Gardermoen\n";

    fn mistakes(text: &str) -> String {
        Config::parse(text).err().unwrap_or_default().join("\n")
    }

    /// M26: an unknown key is a mistake, told with its line.
    #[test]
    fn an_unknown_key_is_told_with_its_line() {
        let told = mistakes("defaults:\n  explicit: true\n");
        assert!(told.contains("explicit") && told.contains("line 2"), "{told}");
        let told = mistakes(&format!("{RIGHT}    runway: 19R\n"));
        assert!(told.contains("runway") && told.contains("line 4"), "{told}");
        let told = mistakes("aerodromes: [");
        assert!(told.contains("line 1"), "{told}");
    }

    #[test]
    fn every_value_that_cannot_be_is_told_at_once() {
        let told = mistakes(
            "base_url: ftp://example.com\ndefaults: {max_age_minutes: 5}\naerodromes:\n  engm:\n    name: ''\n    \
             transition_level: 7000\n    transition_altitude: 70\n    remarks: [\"a\\nb\"]\n    frequencies: [{name: Tower, \
             mhz: '118,3'}]\n    runways_in_use: [{wind: [0, 361], runways: [37]}, {runways: []}]\n",
        );
        for part in [
            "line 1: base_url",
            "max_age_minutes",
            "line 5: aerodromes.engm: name",
            "four capital letters",
            "transition_level",
            "transition_altitude",
            "a remark",
            "118.300",
            "within 1 and 360",
            "is no runway",
            "name a runway",
        ] {
            assert!(told.contains(part), "{part} in:\n{told}");
        }
        assert!(mistakes("{}").contains("no aerodrome is configured"));
    }

    #[test]
    fn a_runway_or_a_level_may_be_written_without_quotes() {
        let config = Config::parse(&format!(
            "{RIGHT}    transition_level: 70\n    runways_in_use:\n      - {{runways: [01, 19R]}}\n"
        ));
        let config = config.unwrap();
        assert_eq!(config.aerodrome("ENGM").unwrap().runways_in_use[0].runways, ["01", "19R"]);
    }

    /// M26: the file is read again when it changes; a broken one keeps what there was.
    #[test]
    fn a_broken_file_keeps_the_former_configuration_until_it_is_right_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("atis.yaml");
        let setting = Setting { user_agent: Some("test a@example.com".into()), ..Setting::default() };
        fs::write(&path, RIGHT).unwrap();
        let file = ConfigFile::open(&path, setting).unwrap();
        let name = || file.current().aerodrome("ENGM").unwrap().name.clone();
        fs::write(&path, "aerodromes: [what").unwrap();
        assert_eq!(name(), "Oslo Gardermoen");
        fs::remove_file(&path).unwrap();
        assert_eq!(name(), "Oslo Gardermoen");
        fs::write(&path, RIGHT.replace("Oslo Gardermoen", "Gardermoen")).unwrap();
        assert_eq!(name(), "Gardermoen");
    }

    /// M26: `METNO_USER_AGENT`.
    #[test]
    fn fetching_needs_a_user_agent_and_a_folder_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("atis.yaml");
        fs::write(&path, RIGHT).unwrap();
        let told = ConfigFile::open(&path, Setting::default()).err().unwrap().join("\n");
        assert!(told.contains("METNO_USER_AGENT is not set"), "{told}");
        fs::write(&path, format!("offline: reports\n{RIGHT}")).unwrap();
        let file = ConfigFile::open(&path, Setting::default()).unwrap_or_else(|problems| panic!("{problems:?}"));
        assert_eq!(file.current().offline.as_deref(), Some(folder.path().join("reports").as_path()));
    }

    #[test]
    fn the_shipped_configuration_is_right() {
        let path = Path::new(&std::env::var("CARGO_MANIFEST_DIR").unwrap()).join("../../config/aviation_atis.yaml");
        let config = Config::parse(&fs::read_to_string(path).unwrap()).unwrap();
        assert!(config.names().count() >= 3 && config.aerodrome("ENGM").is_some());
    }
}
