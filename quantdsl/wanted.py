"""What a key of a TOML file must hold, in words, from the struct that describes it."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

TYPES = {
    "number": "a number",
    "integer": "a whole number",
    "string": "text",
    "boolean": "true or false",
}
BOUNDS = {
    "exclusiveMinimum": "above",
    "minimum": "at least",
    "exclusiveMaximum": "below",
    "maximum": "at most",
    "multipleOf": "a multiple of",
    "minLength": "of a length of at least",
}
HELD = {"number": (int, float), "integer": (int,), "string": (str,), "boolean": (bool,)}
"""The types in Python of what a schema names."""
EACH = "[...]"
"""How msgspec writes any value of a table whose keys are free."""
SHOWN_MAX = 40


def fault(
    error: msgspec.ValidationError, struct: type[msgspec.Struct], given: Mapping[str, Any]
) -> tuple[str, str]:
    """The dotted key that `error` is about, "" for the whole table, and what is wrong with it.

    `given` has the values by key. `cash is "much" but must be a number above 0: Money at the start`
    """
    reason, _, path = str(error).partition(" - at `$.")
    path, reason = path.rstrip("`"), reason[:1].lower() + reason[1:]
    key = path.removesuffix(EACH)
    name = f"each of {key}" if path != key else path or "this"
    if not reason.startswith(("expected", "invalid enum")):
        return key, f"{name}: {reason}"
    value = _given(path, given)
    shape, meaning = _at(path, struct)
    for entry, one in (_given(key, given) or {}).items() if path != key else ():
        if not _fits(one, shape):
            key, value = f"{key}.{entry}", one
            name = key
            break
    said = "" if value is None else f" is {_shown(value)} but"
    return key, f"{name}{said} must be {_wanted(shape)}{meaning}"


def _given(path: str, given: Mapping[str, Any]) -> Any:
    """The value at a path, `feed[1].stale_s` too; None where it names no one value."""
    if path in given or not (listed := re.fullmatch(r"(.+?)\[(\d+)\](?:\.(.+))?", path)):
        return given.get(path)
    key, number, rest = listed.groups()
    element = given[key][int(number)]
    return _given(rest, element) if rest else element


def _fits(value: Any, shape: Mapping[str, Any]) -> bool:
    """Whether a value is of the type that a schema says."""
    if "anyOf" in shape:
        return any(_fits(value, one) for one in shape["anyOf"])
    return type(value) in HELD.get(shape.get("type", ""), (type(value),))


def _at(path: str, struct: type[msgspec.Struct]) -> tuple[dict[str, Any], str]:
    """The schema of a key and what it means; its path as msgspec writes it."""
    (shape,), parts = msgspec.json.schema_components((struct,), ref_template="{name}")
    meaning = ""
    for name in re.findall(r"\[.*?\]|[^.\[\]]+", path):
        table = parts[shape["$ref"]]["properties"] if "$ref" in shape else {}
        inside: dict[str, Any] = shape.get("items") or shape.get("additionalProperties") or {}
        shape = inside if name.startswith("[") else table[name]
        meaning = f": {shape['description']}" if "description" in shape else meaning
    return shape, meaning


def _wanted(shape: Mapping[str, Any]) -> str:
    if "anyOf" in shape:
        each = [_wanted(one) for one in shape["anyOf"] if one.get("type") != "null"]
        return " or ".join(dict.fromkeys(each))
    if "enum" in shape:
        return " or ".join(_shown(one) for one in shape["enum"])
    bounds = [f"{word} {_shown(shape[name])}" for name, word in BOUNDS.items() if name in shape]
    bounds += [f"such as {_shown(one)}" for one in shape.get("examples", ())]
    kind = TYPES.get(shape.get("type", ""), "a table")
    if shape.get("type") == "array":
        kind = f"a list, each of it {_wanted(shape['items'])}"
    return f"{kind} {' and '.join(bounds)}" if bounds else kind


def _shown(value: Any) -> str:
    """A value as TOML has it, cut where it is long."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:,.15g}"
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}..."
