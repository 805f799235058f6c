//! Real parts, in real time: Asterisk, telephones, a browser, Prometheus, MCP servers, the program itself.

mod cli;
mod embedded;
mod first;
mod gate_service;
mod mcp;
mod neural;
mod pbx;
mod prometheus;
#[path = "vam/real.rs"]
mod vam;
mod web;
mod wyoming;

use offhook_kit as kit;
