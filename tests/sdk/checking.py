"""What the checks of messages by the vendors' own Python packages have in common."""

from collections.abc import Collection, Iterable
from typing import Any

import pydantic
from pydantic import BaseModel


def unknown_keys(sent: Any, taken: Any, path: str, free: Collection[str] = (), maps: bool = False) -> list[str]:
    """Keys of `sent` that became no declared field of `taken`, which was validated from it: the packages let them
    pass. What is below a key of `free` may be anything; with `maps` an object may have stayed one, which has the keys
    that its type declares."""
    if isinstance(sent, dict) and isinstance(taken, BaseModel):
        fields = type(taken).model_fields
        names = {spelling: name for name, field in fields.items() for spelling in (name, field.alias) if spelling}
        problems = []
        for key, value in sent.items():
            if key not in names:
                problems.append(f"{path}.{key}: no field of {type(taken).__name__}")
            elif key not in free:
                problems += unknown_keys(value, getattr(taken, names[key]), f"{path}.{key}", free, maps)
        return problems
    # What a package takes as an iterable is validated while one goes through it.
    if isinstance(sent, list) and isinstance(taken, Iterable) and not isinstance(taken, (str, dict, BaseModel)):
        return [p for i, (s, t) in enumerate(zip(sent, taken)) for p in unknown_keys(s, t, f"{path}[{i}]", free, maps)]
    if isinstance(sent, dict) and maps and isinstance(taken, dict):
        undeclared = [f"{path}.{key}: not declared" for key in sent if key not in taken]
        known = [key for key in sent if key in taken and key not in free]
        return undeclared + [
            p for key in known for p in unknown_keys(sent[key], taken[key], f"{path}.{key}", free, maps)
        ]
    if isinstance(sent, dict) and not maps:
        return [f"{path}: an object that no model took"]
    return []


def refusals(error: pydantic.ValidationError) -> list[str]:
    """Why a model did not take a value, one line for each reason."""
    return [f"$.{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]


def report(what: str, found: Iterable[tuple[str, list[str]]]) -> int:
    """Prints each thing's problems behind its name, and how many there were; the exit code of the program. Nothing
    checked is as bad as something wrong."""
    checked, violations = 0, 0
    for name, problems in found:
        for problem in problems:
            print(f"{name} {problem}")
        checked += 1
        violations += len(problems)
    print(f"{checked} {what} checked, {violations} violations")
    return 1 if violations or not checked else 0
