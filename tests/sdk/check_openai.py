"""Checks client messages of OpenAI Realtime, one JSON object per line on standard input, against the
types of the vendor's own Python package.

The package's models accept unknown keys, but the server refuses them; so every key that is sent
has to be a field of the model that took the value. Prints one line per violation and exits 1 if
there is any.
"""

import json
import sys
from typing import Any, get_args

import pydantic
from checking import refusals, report, unknown_keys
from openai.types.realtime import RealtimeClientEvent
from pydantic import TypeAdapter

# JSON Schema of a tool's parameters, which the package types as any object; the metadata that a response carries, as any words.
FREE = {"parameters", "metadata"}


def known_types() -> set[str]:
    """The `type` of every client event. The alias is `Annotated[Union[...], ...]`."""
    union, *_ = get_args(RealtimeClientEvent)
    return {get_args(model.model_fields["type"].annotation)[0] for model in get_args(union)}


def violations(message: dict[str, Any], adapter: TypeAdapter, types: set[str]) -> list[str]:
    kind = message.get("type")
    if kind not in types:
        return [f"$.type: {kind!r} is no client event"]
    try:
        model = adapter.validate_python(message, strict=True)
    except pydantic.ValidationError as error:
        return refusals(error)
    taken_for = [] if getattr(model, "type", None) == kind else [f"$: taken for {type(model).__name__}"]
    return unknown_keys(message, model, "$", FREE) + taken_for


def main() -> int:
    adapter, types = TypeAdapter(RealtimeClientEvent), known_types()
    messages = enumerate(map(json.loads, sys.stdin), 1)
    return report(
        "messages", ((f"message {n} ({m.get('type')})", violations(m, adapter, types)) for n, m in messages)
    )


if __name__ == "__main__":
    sys.exit(main())
