"""Checks client messages of Deepgram Voice Agent, one JSON object per line on standard input, against
the types of the vendor's own Python package.

The package's models accept unknown keys, but the server refuses them; so every key that is sent has to
be a field of the model that took the value. Prints one line per violation and exits 1 if there is any.
"""

import json
import sys
import warnings
from typing import Any

import pydantic
from deepgram.agent.v1 import types
from pydantic import BaseModel, TypeAdapter

MODELS = {
    "Settings": types.AgentV1Settings,
    "KeepAlive": types.AgentV1KeepAlive,
    "UpdatePrompt": types.AgentV1UpdatePrompt,
    "InjectUserMessage": types.AgentV1InjectUserMessage,
    "InjectAgentMessage": types.AgentV1InjectAgentMessage,
    "FunctionCallResponse": types.AgentV1SendFunctionCallResponse,
}
# Keys without which the server could do nothing, though the package has them optional.
NEEDED = {"FunctionCallResponse": {"id"}}
# JSON Schema of a tool's parameters, and headers by their names: the package types them as any object.
FREE = {"parameters", "headers"}


def unknown_keys(sent: Any, taken: Any, path: str) -> list[str]:
    """Keys of `sent` that became no declared field of `taken`, which was validated from it."""
    if isinstance(sent, dict) and isinstance(taken, BaseModel):
        fields = type(taken).model_fields
        problems = []
        for key, value in sent.items():
            if key not in fields:
                problems.append(f"{path}.{key}: no field of {type(taken).__name__}")
            elif key not in FREE:
                problems += unknown_keys(value, getattr(taken, key), f"{path}.{key}")
        return problems
    if isinstance(sent, list) and isinstance(taken, list):
        return [p for i, (s, t) in enumerate(zip(sent, taken)) for p in unknown_keys(s, t, f"{path}[{i}]")]
    if isinstance(sent, dict):
        return [f"{path}: an object that no model took"]
    return []


def violations(message: dict[str, Any]) -> list[str]:
    kind = message.get("type")
    if kind not in MODELS:
        return [f"$.type: {kind!r} is no client message"]
    try:
        taken = TypeAdapter(MODELS[kind]).validate_python(message, strict=True)
    except pydantic.ValidationError as error:
        return [f"$.{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]
    missing = [f"$.{key}: missing" for key in sorted(NEEDED.get(kind, set()) - message.keys())]
    return missing + unknown_keys(message, taken, "$")


def main() -> int:
    warnings.simplefilter("error", UserWarning)
    checked, found = 0, 0
    for number, line in enumerate(sys.stdin, 1):
        message = json.loads(line)
        for problem in violations(message):
            print(f"message {number} ({message.get('type')}) {problem}")
            found += 1
        checked += 1
    print(f"{checked} messages checked, {found} violations")
    return 1 if found or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
