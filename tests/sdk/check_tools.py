"""Checks tools as they are declared to each provider against the types of the vendor's own Python
package: `check_tools.py DIALECT FILE [DIALECT FILE ...]`, each file a list of declarations.

Some packages let unknown keys pass; so every key has to be a field of the model that took the
value. Prints one line per violation and exits 1 if there is any.
"""

import json
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import pydantic
from checking import refusals, report, unknown_keys
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


def violations(dialect: str, tool: Any) -> list[str]:
    try:
        taken = MODELS[dialect].model_validate(tool)
    except pydantic.ValidationError as error:
        return refusals(error)
    except UserWarning as warning:  # what an enumeration of google-genai says of an unknown value
        return [f"$: {warning}"]
    missing = [f"$.{key}: missing" for key in sorted(NEEDED[dialect] - tool.keys())]
    return missing + unknown_keys(tool, taken, "$", maps=True)


def declared(dialects: list[str], paths: list[str]) -> Iterator[tuple[str, list[str]]]:
    for dialect, path in zip(dialects, paths):
        with open(path, encoding="utf-8") as file:
            for tool in json.load(file):
                yield f"{dialect} {tool.get('name')}", violations(dialect, tool)


def main() -> int:
    warnings.simplefilter("error", UserWarning)
    arguments = sys.argv[1:]
    return report("tools", declared(arguments[::2], arguments[1::2]))


if __name__ == "__main__":
    sys.exit(main())
