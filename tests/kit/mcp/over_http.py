#!/usr/bin/env python3
"""An MCP server of the official Python SDK over streamable HTTP: over_http.py PORT TOKEN

It listens on 127.0.0.1 only and answers 401 to requests without `Authorization: Bearer TOKEN`. Like anything that runs
somewhere else it knows nothing of the engine, neither starts nor ends with it.
"""

import sys

import uvicorn
from mcp.server import MCPServer

LIFETIME = 300  # requests; what is forgotten ends some day

port, token = int(sys.argv[1]), sys.argv[2]
server = MCPServer("shop")


@server.tool()
def opening_hours(day: str) -> dict:
    """Tells when the shop is open on a day."""
    return {"message": f"On {day} we are open from ten to two.", "from": "10:00", "to": "14:00"}


inner = server.streamable_http_app()


async def guarded(scope, receive, send):
    if scope["type"] == "http" and (b"authorization", f"Bearer {token}".encode()) not in scope["headers"]:
        await send({"type": "http.response.start", "status": 401, "headers": []})
        await send({"type": "http.response.body", "body": b""})
        return
    await inner(scope, receive, send)


uvicorn.run(guarded, host="127.0.0.1", port=port, log_level="warning", limit_max_requests=LIFETIME)
