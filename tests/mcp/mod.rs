//! MCP servers as the engine has them: started, asked, broken, started again. The servers are real programs: one that
//! misbehaves on demand, and three that others wrote.

use crate::kit;

mod answers;
mod configuration;
mod desk;
mod ends;
mod http;
mod lists;
mod servers;
mod starts;
