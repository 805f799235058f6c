"""Checks client messages of Gemini Live, one JSON object per line on standard input, against the types
of the vendor's own Python package. With `--server` the lines are messages of the server.

The server ends a session over an unknown key; so every key that is sent has to be a field of the
model that took the value. Prints one line per violation and exits 1 if there is any.
"""

import json
import sys
import warnings
from typing import Any, Optional

import pydantic
from checking import refusals, report
from google.genai import _live_converters, types
from pydantic import BaseModel


class Setup(types.LiveClientSetup):
    """The package has the key in its configuration and writes it into the set-up; see `main`."""

    realtime_input_config: Optional[types.RealtimeInputConfig] = None


class ClientMessage(types.LiveClientMessage):
    setup: Optional[Setup] = None


# Objects whose keys are the tool's own.
FREE = {"args", "response"}
# The package has all keys optional; these the server cannot do without.
NEEDED = {
    "Setup": {"model", "generationConfig"},
    "GenerationConfig": {"responseModalities"},
    "FunctionDeclaration": {"name", "description"},
    "FunctionResponse": {"name", "response"},
    "LiveClientContent": {"turns", "turnComplete"},
    "Content": {"parts"},
    "Blob": {"data", "mimeType"},
}
# What the vendor says of a model's turns in text: one without its role ends the session.
ROLES = {"user", "model"}
RESPELLED = {
    "type": "voiceActivityType",
    "candidatesTokenCount": "responseTokenCount",
    "candidatesTokensDetails": "responseTokensDetails",
}
NUMBERS = {
    "promptTokenCount",
    "prompt_token_count",
    "responseTokenCount",
    "tokenCount",
    "token_count",
    "last_consumed_client_message_index",
}


def unknown_keys(sent: Any, taken: Any, path: str) -> list[str]:
    """What `sent` has that the model `taken` has no declared field for, or lacks."""
    if isinstance(sent, dict) and isinstance(taken, BaseModel):
        kind = type(taken).__name__
        names = {spelling: name for name, field in type(taken).model_fields.items() for spelling in (name, field.alias)}
        given = {names.get(key) for key in sent}
        problems = [f"{path}.{key}: missing" for key in sorted(NEEDED.get(kind, ())) if names[key] not in given]
        for key, value in sent.items():
            if key not in names:
                problems.append(f"{path}.{key}: no field of {kind}")
            elif key not in FREE:
                problems += unknown_keys(value, getattr(taken, names[key]), f"{path}.{key}")
        return problems
    if isinstance(sent, list) and isinstance(taken, list):
        return [p for i, (s, t) in enumerate(zip(sent, taken)) for p in unknown_keys(s, t, f"{path}[{i}]")]
    if isinstance(sent, dict) and isinstance(taken, dict):
        return [p for key in sent for p in unknown_keys(sent[key], taken.get(key), f"{path}.{key}")]
    if isinstance(sent, dict):
        return [f"{path}: an object that no model took"]
    # The package forgives numbers and truth values that are written as text.
    if isinstance(taken, (bool, int, float)) and type(sent) not in (type(taken), int):
        return [f"{path}: {sent!r} was taken for {taken!r}"]
    return []


def respelled(message: Any) -> Any:
    """A message of the server as the package's converters hand it to its types: some keys have other
    names there, or on Vertex, and whole numbers may be text on the wire."""
    if isinstance(message, list):
        return [respelled(entry) for entry in message]
    if not isinstance(message, dict):
        return message
    return {
        RESPELLED.get(key, key): int(value) if key in NUMBERS and isinstance(value, str) else respelled(value)
        for key, value in message.items()
    }


def violations(message: Any, model: type[BaseModel]) -> list[str]:
    if not isinstance(message, dict):
        return ["$: no object"]
    try:
        taken = model.model_validate(message)
    except pydantic.ValidationError as error:
        return refusals(error)
    except UserWarning as warning:  # what an enumeration of the package says of an unknown value
        return [f"$: {warning}"]
    problems = unknown_keys(message, taken, "$")
    if model is ClientMessage:
        if len(message) != 1:
            problems.append(f"$: {len(message)} things in one message")
        problems += [
            f"$.clientContent.turns[{i}].role: {turn.get('role')!r}"
            for i, turn in enumerate(message.get("clientContent", {}).get("turns", []))
            if turn.get("role") not in ROLES
        ]
        if isinstance(message.get("setup", {}).get("systemInstruction"), str):
            problems.append("$.setup.systemInstruction: a text; the package would make an object of it")
        realtime = message.get("realtimeInput", {"audio": {}})
        if len(realtime) != 1:
            problems.append(f"$.realtimeInput: {len(realtime)} things in one message")
    return problems


def serialized_key() -> bool:
    """Whether the package itself writes the key that its type of the set-up lacks."""
    config = types.LiveConnectConfig(realtime_input_config=types.RealtimeInputConfig())
    parent: dict[str, Any] = {}
    _live_converters._LiveConnectConfig_to_mldev(None, config, parent)
    return "realtimeInputConfig" in parent.get("setup", {})


def main() -> int:
    warnings.simplefilter("error", UserWarning)
    server = sys.argv[1:] == ["--server"]
    model = types.LiveServerMessage if server else ClientMessage
    if not serialized_key():
        print("the package no longer writes setup.realtimeInputConfig")
        return 1
    messages = (respelled(message) if server else message for message in map(json.loads, sys.stdin))
    return report("messages", ((f"message {n}", violations(m, model)) for n, m in enumerate(messages, 1)))


if __name__ == "__main__":
    sys.exit(main())
