//! MCP servers: started, watched, restarted, asked.
