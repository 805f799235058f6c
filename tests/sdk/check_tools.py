"""Checks tools as they are declared to each provider against the types of the vendor's own Python
package: `check_tools.py DIALECT FILE [DIALECT FILE ...]`, each file a list of declarations.

Some packages let unknown keys pass; so every key has to be a field of the model that took the
value. Prints one line per violation and exits 1 if there is any.
"""

import json
import sys
import warnings
from typing import Any

import pydantic
from deepgram.types.think_settings_v1functions_item import ThinkSettingsV1FunctionsItem
from elevenlabs.types.tool_request_model_tool_config import ToolRequestModelToolConfig_Client
from google.genai.types import FunctionDeclaration
from openai.types.chat import ChatCompletionFunctionTool
from openai.types.realtime import RealtimeFunctionTool
from pydantic import BaseModel

MODELS: dict[str, type[BaseModel]] = {
    "openai_realtime": RealtimeFunctionTool,
    "chat_completions": ChatCompletionFunctionTool,
    "gemini": FunctionDeclaration,
    "deepgram": ThinkSettingsV1FunctionsItem,
    "elevenlabs": ToolRequestModelToolConfig_Client,
}
# Keys without which the vendor's server could do nothing, though the package has them optional.
NEEDED = {
    "openai_realtime": {"type", "name"},
    "chat_completions": {"type", "function"},
    "gemini": {"name"},
    "deepgram": {"name", "parameters"},
    "elevenlabs": {"type", "name", "parameters"},
}


def unknown_keys(sent: Any, taken: Any, path: str) -> list[str]:
    """Keys of `sent` that became no declared field of the model `taken`."""
    if isinstance(sent, dict) and isinstance(taken, BaseModel):
        fields = type(taken).model_fields
        names = {spelling: name for name, field in fields.items() for spelling in (name, field.alias) if spelling}
        problems = []
        for key, value in sent.items():
            if key not in names:
                problems.append(f"{path}.{key}: no field of {type(taken).__name__}")
            else:
                problems += unknown_keys(value, getattr(taken, names[key]), f"{path}.{key}")
        return problems
    if isinstance(sent, list) and isinstance(taken, list):
        return [p for i, (s, t) in enumerate(zip(sent, taken)) for p in unknown_keys(s, t, f"{path}[{i}]")]
    if isinstance(sent, dict) and isinstance(taken, dict):
        # Typed as any object, or properties by their names.
        return [p for key in sent for p in unknown_keys(sent[key], taken.get(key), f"{path}.{key}")]
    return []


def violations(dialect: str, tool: Any) -> list[str]:
    try:
        taken = MODELS[dialect].model_validate(tool)
    except pydantic.ValidationError as error:
        return [f"$.{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]
    except UserWarning as warning:  # what an enumeration of google-genai says of an unknown value
        return [f"$: {warning}"]
    missing = [f"$.{key}: missing" for key in sorted(NEEDED[dialect] - tool.keys())]
    return missing + unknown_keys(tool, taken, "$")


def main() -> int:
    warnings.simplefilter("error", UserWarning)
    arguments = sys.argv[1:]
    checked, found = 0, 0
    for dialect, path in zip(arguments[::2], arguments[1::2]):
        with open(path, encoding="utf-8") as file:
            tools = json.load(file)
        for tool in tools:
            for problem in violations(dialect, tool):
                print(f"{dialect} {tool.get('name')} {problem}")
                found += 1
            checked += 1
    print(f"{checked} tools checked, {found} violations")
    return 1 if found or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
