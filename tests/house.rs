//! Rules of the house and documents made from code: nothing here waits, and nothing here needs a network.

mod agents_sdk;
mod canonical;
mod conformance;
mod deployment;
mod gemini_sdk;
mod generated;
mod mcp_python_client;
mod metrics_reference;
mod openai_sdk;
mod ports;
mod provider_fixtures;
mod tidy;
mod tool_schemas;

use offhook_kit as kit;
