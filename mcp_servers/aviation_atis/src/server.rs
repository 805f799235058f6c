//! The one tool.

use crate::{
    config::{Aerodrome, Config, ConfigFile, is_icao},
    phraseology,
    report::{self, Unreadable},
    source::{Missing, Source},
};
use rmcp::{
    Json, ServerHandler,
    handler::server::{router::tool::ToolRouter, wrapper::Parameters},
    model::{Implementation, ServerCapabilities, ServerConfig},
    tool, tool_handler, tool_router,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Names told to a caller who asked for another aerodrome.
const NAMES_MAX: usize = 5;

#[derive(Clone)]
pub struct AtisServer {
    config: Arc<ConfigFile>,
    source: Arc<Source>,
    tool_router: ToolRouter<Self>,
}

#[derive(Deserialize, JsonSchema)]
pub struct Wanted {
    /// The aerodrome as four letters (ICAO location indicator), such as ENGM.
    icao: String,
}

#[derive(Serialize, JsonSchema)]
pub struct Atis {
    /// The information to read out word by word.
    atis_text: String,
    icao: String,
    /// Name of the aerodrome as it is spoken.
    name: String,
    /// The word of the information letter; null when no report is young enough.
    information: Option<String>,
    /// Time of the observation (RFC 3339, UTC).
    observed_at: String,
    /// Age of the observation.
    age_minutes: i64,
    /// Whether it is the present weather. If not, `atis_text` holds no weather, and `raw` is not to be told as such.
    current: bool,
    /// The METAR.
    raw: String,
    /// Whom the report is from.
    source: String,
    /// What is wrong with the source, if anything.
    warning: Option<String>,
}

#[tool_router]
impl AtisServer {
    pub fn new(config: Arc<ConfigFile>, source: Arc<Source>) -> Self {
        Self { config, source, tool_router: Self::tool_router() }
    }

    /// The present weather and operational information of an aerodrome, worded as its ATIS. Read `atis_text` out as it is.
    #[tool(annotations(
        title = "Aerodrome information (ATIS)",
        read_only_hint = true,
        destructive_hint = false,
        idempotent_hint = true,
        open_world_hint = true
    ))]
    async fn get_atis(&self, Parameters(wanted): Parameters<Wanted>) -> Result<Json<Atis>, String> {
        let icao = wanted.icao.trim().to_ascii_uppercase();
        if !is_icao(&icao) {
            return Err("An aerodrome has to be given as four letters, such as E N G M for Oslo Gardermoen.".into());
        }
        let config = self.config.current();
        let unnamed = Aerodrome { name: phraseology::spelled(&icao), ..Aerodrome::default() };
        let aerodrome = match config.aerodrome(&icao) {
            Some(aerodrome) => aerodrome,
            None if config.defaults.allow_any => &unnamed,
            None => return Err(not_served(&icao, &config)),
        };
        self.atis(icao, aerodrome, &config).await.map(Json)
    }

    async fn atis(&self, icao: String, aerodrome: &Aerodrome, config: &Config) -> Result<Atis, String> {
        let name = aerodrome.name.clone();
        let found = self.source.latest(&icao, config).await.map_err(|missing| match missing {
            Missing::None => format!("There is no weather report for {name}."),
            Missing::Failed(_) => {
                format!("The weather report for {name} cannot be fetched just now. Please try again in a few minutes.")
            }
        })?;
        let now = self.source.now();
        let report = report::decode(&found.raw, now).map_err(|why: Unreadable| {
            tracing::warn!(icao, %why, report = found.raw, "a report cannot be read");
            format!("The latest weather report for {name} cannot be read.")
        })?;
        let age_minutes = report::minutes_between(report.observed, now);
        let current = age_minutes <= config.defaults.max_age_minutes;
        let atis_text = if current {
            phraseology::atis(&report, &name, aerodrome, config.defaults.explicit_not_available)
        } else {
            phraseology::no_report(&name, aerodrome)
        };
        Ok(Atis {
            atis_text,
            icao,
            name,
            information: current.then(|| phraseology::information(&report).to_owned()),
            observed_at: report.observed.to_string(),
            age_minutes,
            current,
            raw: found.raw,
            source: found.source,
            warning: found.warning,
        })
    }
}

fn not_served(icao: &str, config: &Config) -> String {
    let names: Vec<&str> = config.names().take(NAMES_MAX).collect();
    let more = if config.names().count() > NAMES_MAX { " and others" } else { "" };
    let icao = phraseology::spelled(icao);
    format!("There is no information for {icao}. There is for {}{more}.", names.join(", "))
}

#[tool_handler(router = self.tool_router)]
impl ServerHandler for AtisServer {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION")))
    }
}
