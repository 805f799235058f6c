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
from openai.types.realtime import RealtimeClientEvent
from pydantic import BaseModel, TypeAdapter

# JSON Schema of a tool's parameters: the package types it as any object.
FREE = {"parameters"}


def unknown_keys(sent: Any, model: Any, path: str) -> list[str]:
    """Keys of `sent` that became no declared field of `model`, which was validated from it."""
    if isinstance(sent, dict) and isinstance(model, BaseModel):
        fields = type(model).model_fields
        names = {field.alias or name: name for name, field in fields.items()}
        problems = []
        for key, value in sent.items():
            if key not in names:
                problems.append(f"{path}.{key}: no field of {type(model).__name__}")
            elif key not in FREE:
                problems += unknown_keys(value, getattr(model, names[key]), f"{path}.{key}")
        return problems
    if isinstance(sent, list) and isinstance(model, list):
        return [p for i, (s, m) in enumerate(zip(sent, model)) for p in unknown_keys(s, m, f"{path}[{i}]")]
    if isinstance(sent, dict):
        return [f"{path}: an object that no model took"]
    return []


def known_types() -> set[str]:
    """The `type` of every client event. The alias is `Annotated[Union[...], ...]`."""
    union, *_ = get_args(RealtimeClientEvent)
    return {get_args(model.model_fields["type"].annotation)[0] for model in get_args(union)}


def main() -> int:
    adapter = TypeAdapter(RealtimeClientEvent)
    types = known_types()
    checked, violations = 0, 0
    for number, line in enumerate(sys.stdin, 1):
        message = json.loads(line)
        kind = message.get("type")
        if kind not in types:
            problems = [f"$.type: {kind!r} is no client event"]
        else:
            try:
                model = adapter.validate_python(message, strict=True)
                problems = unknown_keys(message, model, "$")
                if getattr(model, "type", None) != kind:
                    problems.append(f"$: taken for {type(model).__name__}")
            except pydantic.ValidationError as error:
                problems = [f"$.{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]
        for problem in problems:
            print(f"message {number} ({kind}) {problem}")
        checked += 1
        violations += len(problems)
    print(f"{checked} messages checked, {violations} violations")
    return 1 if violations or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
