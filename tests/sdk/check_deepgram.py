"""Checks client messages of Deepgram Voice Agent, one JSON object per line on standard input, against
the types of the vendor's own Python package. With `--server` the lines are messages of the server.

The package's models accept unknown keys, but the server refuses them; so every key that is sent has to
be a field of the model that took the value. Prints one line per violation and exits 1 if there is any.
"""

import json
import sys
import warnings
from typing import Any

import pydantic
from checking import refusals, report, unknown_keys
from deepgram.agent.v1 import types
from pydantic import TypeAdapter

MODELS = {
    "Settings": types.AgentV1Settings,
    "ForceEndTurn": types.AgentV1ForceEndTurn,
    "KeepAlive": types.AgentV1KeepAlive,
    "UpdatePrompt": types.AgentV1UpdatePrompt,
    "InjectUserMessage": types.AgentV1InjectUserMessage,
    "InjectAgentMessage": types.AgentV1InjectAgentMessage,
    "FunctionCallResponse": types.AgentV1SendFunctionCallResponse,
}
SERVER_MODELS = {
    name: getattr(types, f"AgentV1{name}")
    for name in (
        "AgentAudioDone",
        "AgentStartedSpeaking",
        "AgentThinking",
        "ConversationText",
        "Error",
        "FunctionCallCancelled",
        "FunctionCallRequest",
        "History",
        "InjectionRefused",
        "PromptUpdated",
        "SettingsApplied",
        "UserStartedSpeaking",
        "Warning",
        "Welcome",
    )
}
# Keys without which the server could do nothing, though the package has them optional.
NEEDED = {"FunctionCallResponse": {"id"}}
# JSON Schema of a tool's parameters, and headers by their names: the package types them as any object.
FREE = {"parameters", "headers"}


def violations(message: dict[str, Any], models: dict[str, Any]) -> list[str]:
    kind = message.get("type")
    if kind not in models:
        return [f"$.type: {kind!r} is no message of this side"]
    try:
        taken = TypeAdapter(models[kind]).validate_python(message, strict=True)
    except pydantic.ValidationError as error:
        return refusals(error)
    missing = [f"$.{key}: missing" for key in sorted(NEEDED.get(kind, set()) - message.keys())]
    return missing + unknown_keys(message, taken, "$", FREE)


def main() -> int:
    warnings.simplefilter("error", UserWarning)
    models = SERVER_MODELS if sys.argv[1:] == ["--server"] else MODELS
    messages = enumerate(map(json.loads, sys.stdin), 1)
    return report("messages", ((f"message {n} ({m.get('type')})", violations(m, models)) for n, m in messages))


if __name__ == "__main__":
    sys.exit(main())
