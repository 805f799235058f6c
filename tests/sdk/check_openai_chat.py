"""Checks requests for chat completions, one JSON object per line on standard input, against the types of
the vendor's own Python package.

The package's types accept unknown keys, but the server refuses them; so every key that is sent has to be
one that the type declares. Prints one line per violation and exits 1 if there is any.
"""

import json
import sys
from typing import Any

import pydantic
from checking import refusals, report, unknown_keys
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from pydantic import TypeAdapter

# JSON Schema of a tool's parameters: the package types it as any object.
FREE = {"parameters"}


def violations(request: dict[str, Any], adapter: TypeAdapter) -> list[str]:
    try:
        # What is lazy in it is validated below.
        return unknown_keys(request, adapter.validate_python(request, strict=True), "$", FREE, maps=True)
    except pydantic.ValidationError as error:
        return refusals(error)


def main() -> int:
    adapter = TypeAdapter(CompletionCreateParamsStreaming)
    requests = enumerate(map(json.loads, sys.stdin), 1)
    return report("requests", ((f"request {n}", violations(request, adapter)) for n, request in requests))


if __name__ == "__main__":
    sys.exit(main())
