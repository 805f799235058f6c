//! The built program, driven by an MCP client.

mod program;
mod support;
mod tools;
