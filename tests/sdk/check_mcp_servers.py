"""Drives an MCP server with the official Python client: check_mcp_servers.py PLAN PROGRAM FOLDER

PLAN is one of PLANS below, PROGRAM the server's binary, FOLDER an empty one for its files. Both ways to
begin are taken: the handshake with `initialize`, and whatever the client prefers today. Prints one line
per violation and exits 1 if there is any.
"""

import asyncio
import json
import re
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import mcp.client.stdio
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from mcp import Client, MCPError, StdioServerParameters

# No tool here has more to do than to read a file; what takes longer hangs.
CALL_SECONDS = 30
SESSION_SECONDS = 300
# How long a server may take to end after its input was closed, before the client sends it a signal.
END_SECONDS = 30
# What every model provider takes for a name.
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
# The server under a shell that writes down how it ended, if it was let end.
SHELL = 'ended=$1; shift; "$@"; echo $? > "$ended"'


@dataclass
class Good:
    """A call that works: `expected` is a part of its structured result."""

    tool: str
    arguments: dict
    expected: dict
    seconds: float = CALL_SECONDS


@dataclass
class Bad:
    """A call that is refused, by `isError` or by an error of the protocol."""

    tool: str
    arguments: dict


@dataclass
class Plan:
    server: str
    arguments: list[str]
    calls: list[Good | Bad]
    modes: tuple[str, ...] = ("legacy", "auto")
    end_seconds: float = END_SECONDS


def phonebook(folder):
    anna = {"number": "030 23125 010", "name": "Anna Meier", "company": "Meier Ltd.", "note": "Kind"}
    shown = {"name": "Anna Meier", "company": "Meier Ltd.", "number": "+493023125010", "vip": False}
    calls = [
        # Nothing changes when the plan is gone through once more.
        Good("add_contact", anna, {}),
        Good("add_contact", anna, {"changed": False}),
        Good("set_note", {"number": "0049 30 23125010", "note": "Very kind"}, {"changed": True}),
        Good("find_by_number", {"number": "+49 (0)30 23125-010"}, {"found": True, "note": "Very kind", **shown}),
        Good("find_by_number", {"number": "anonymous"}, {"found": False}),
        Good("find_by_number", {"number": "+49 30 23125 099"}, {"found": False, "number": "+493023125099"}),
        Good("search", {"text": "MEIER"}, {"contacts": [{"note": "Very kind", **shown}], "more": False}),
        Good("search", {"text": "%"}, {"contacts": [], "more": False}),
        Bad("find_by_number", {}),
        Bad("find_by_number", {"number": 493023125010}),
        Bad("find_by_number", {"number": "1" * 1000}),
        Bad("search", {"text": ""}),
        Bad("search", {"text": None}),
        Bad("add_contact", {"number": "anonymous", "name": "Eve"}),
        Bad("set_note", {"number": "6001", "note": "x" * 5000}),
        Bad("delete_everything", {}),
    ]
    database = str(folder / "phonebook.db")
    return Plan("phonebook", ["--database", database, "--country-prefix", "49", "--writable"], calls)


def aviation_atis(folder):
    config = folder / "atis.yaml"
    config.write_text("aerodromes:\n  ENGM:\n    name: Oslo Gardermoen\n  ENBR:\n    name: Bergen Flesland\n")
    report = time.strftime("ENGM %d%H%MZ 19012KT 9999 FEW030 08/03 Q1013 NOSIG", time.gmtime())
    (folder / "ENGM.metar").write_text(report + "\n")
    known = {"icao": "ENGM", "name": "Oslo Gardermoen", "current": True}
    calls = [
        Good("get_atis", {"icao": "ENGM"}, known),
        Good("get_atis", {"icao": "engm"}, known),
        # No report, not served, no aerodrome at all.
        Bad("get_atis", {"icao": "ENBR"}),
        Bad("get_atis", {"icao": "KJFK"}),
        Bad("get_atis", {"icao": "../ENGM"}),
        Bad("get_atis", {"icao": "E" * 10_000}),
        Bad("get_atis", {"icao": 4}),
        Bad("get_atis", {}),
        Bad("get_weather", {"icao": "ENGM"}),
    ]
    return Plan("aviation_atis", ["--offline", str(folder), "--config", str(config)], calls)


def faulty(*arguments):
    """Plans for tests/kit/mcp/faulty.py, to see that this check finds something."""
    hang = Good("hang", {}, {}, seconds=2)
    calls = [Good("sum", {"a": 1, "b": 1}, {"sum": 3}), Good("fail", {}, {}), hang, Bad("echo", {})]
    # A stubborn server does not end however long it is waited for.
    end_seconds = 2 if arguments == ("stubborn",) else END_SECONDS
    calls = calls if arguments == ("plain",) else []
    return lambda _: Plan("faulty", [*arguments], calls, modes=("legacy",), end_seconds=end_seconds)


PLANS = {
    "phonebook": phonebook,
    "aviation_atis": aviation_atis,
    "faulty": faulty("plain"),
    "faulty-end": faulty("stubborn"),
    "faulty-schemas": faulty("schemas"),
}


def undeclared(value, schema):
    """Keys of a structured result that the root of its schema does not declare."""
    return sorted(set(value) - set(schema.get("properties", {})))


def check_tool(tool):
    """What is wrong with a tool's declaration."""
    if not NAME.fullmatch(tool.name):
        yield "a name that providers refuse"
    if not tool.description:
        yield "no description"
    for kind, schema in (("inputSchema", tool.input_schema), ("outputSchema", tool.output_schema)):
        if schema is None:
            yield f"no {kind}"
            continue
        try:
            Draft202012Validator.check_schema(schema)
        except SchemaError as why:
            yield f"{kind}: {why.message}"
        if schema.get("type") != "object":
            yield f"{kind} is of type {schema.get('type')}"
    hints = tool.annotations
    if hints is None or hints.read_only_hint is None:
        yield "no readOnlyHint"


def check_result(good, tool, result):
    """What is wrong with the result of a call that should work."""
    if result.is_error:
        yield f"isError: {result.content}"
        return
    value = result.structured_content
    if not isinstance(value, dict):
        yield "no structuredContent"
        return
    if tool.output_schema:
        for problem in Draft202012Validator(tool.output_schema).iter_errors(value):
            yield f"not of its outputSchema: {problem.message}"
        if extra := undeclared(value, tool.output_schema):
            yield f"keys that its outputSchema does not declare: {', '.join(extra)}"
    # Clients that know nothing of structure read the text.
    texts = [json.loads(block.text) for block in result.content if block.type == "text"]
    if texts != [value]:
        yield "its text is not its structuredContent as JSON"
    if {**value, **good.expected} != value:
        yield f"{value} instead of {good.expected}"


async def refusal(client, bad):
    """Why the call was refused, or None."""
    try:
        result = await asyncio.wait_for(client.call_tool(bad.tool, bad.arguments), CALL_SECONDS)
    except MCPError as error:
        return error.error.message
    return " ".join(getattr(block, "text", "") for block in result.content) if result.is_error else None


async def check_call(client, tools, call):
    """What is wrong with the answer to one call."""
    if isinstance(call, Bad):
        why = await refusal(client, call)
        return [] if why else ["a bad call was not refused with a reason"]
    tool = tools.get(call.tool)
    if tool is None:
        return ["it is not in the list"]
    sent = [problem.message for problem in Draft202012Validator(tool.input_schema).iter_errors(call.arguments)]
    if sent:
        return [f"the inputSchema refuses good arguments: {'; '.join(sent)}"]
    result = await asyncio.wait_for(client.call_tool(call.tool, call.arguments), call.seconds)
    return list(check_result(call, tool, result))


async def check_session(client, plan):
    """What is wrong from the first message to the last."""
    if client.server_info is None or client.server_info.name != plan.server:
        yield f"its name is {client.server_info and client.server_info.name}"
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    if not tools:
        yield "no tools"
    for name, tool in tools.items():
        for problem in check_tool(tool):
            yield f"{name}: {problem}"
    for call in plan.calls:
        where = f"{call.tool} {json.dumps(call.arguments)[:80]}"
        try:
            for problem in await check_call(client, tools, call):
                yield f"{where}: {problem}"
        except TimeoutError:
            yield f"{where}: no answer in time"
        except (MCPError, RuntimeError) as why:
            yield f"{where}: {why}"
    uncalled = set(tools) - {call.tool for call in plan.calls if isinstance(call, Good)}
    if uncalled:
        yield f"no call for {', '.join(sorted(uncalled))}"


async def check(plan, mode, program, folder):
    ended = folder / f"ended-{mode}"
    server = StdioServerParameters(command="sh", args=["-c", SHELL, "sh", str(ended), program, *plan.arguments])
    problems = []
    try:
        async with asyncio.timeout(SESSION_SECONDS), Client(server, mode=mode) as client:
            print(f"{plan.server}, {mode}: protocol {client.protocol_version}")
            problems = [problem async for problem in check_session(client, plan)]
            # The revision without a handshake has no ping.
            if mode == "legacy":
                warnings.simplefilter("ignore")
                await asyncio.wait_for(client.send_ping(), CALL_SECONDS)
    except Exception as why:
        problems.append(f"the session broke: {why!r}")
    if not ended.exists():
        problems.append("it did not end when its input was closed")
    elif (status := ended.read_text().strip()) != "0":
        problems.append(f"it ended with status {status}")
    return [f"{mode}: {problem}" for problem in problems]


def main():
    name, program, folder = sys.argv[1:]
    plan = PLANS[name](Path(folder))
    mcp.client.stdio.PROCESS_TERMINATION_TIMEOUT = plan.end_seconds
    problems = [p for mode in plan.modes for p in asyncio.run(check(plan, mode, program, Path(folder)))]
    print("\n".join(problems) or f"{plan.server}: {len(plan.calls)} calls, all as they should be")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
