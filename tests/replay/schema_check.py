# SPDX-License-Identifier: Apache-2.0
"""The part of JSON Schema that schemas/incident.schema.json and schemas/stress.schema.json use: faults(schema, value)
yields a text each. A keyword or a format that is not known here is a fault of the schema: none goes unchecked. (A
library would be better; Debian's python3-jsonschema is there for Debian's python3 alone, and checks no date-time
without another package.)"""
import datetime
import re

KNOWN = {"$schema", "$id", "$comment", "title", "description", "type", "enum", "const", "properties", "required",
         "additionalProperties", "items", "minItems", "maxItems", "minLength", "maxLength", "pattern", "format",
         "minimum", "maximum", "oneOf", "$defs"}
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


def resolved(schema, defs=None):
    """Without references: each is what $defs has of that name."""
    defs = schema.get("$defs", {}) if defs is None else defs
    if isinstance(schema, list):
        return [resolved(one, defs) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return resolved(defs[schema["$ref"].removeprefix("#/$defs/")], defs)
    return {key: resolved(part, defs) for key, part in schema.items() if key != "$defs"}


def same(a, b):
    """In Python 1 == 1.0 == True; in JSON Schema the first two are."""
    return a == b and isinstance(a, bool) == isinstance(b, bool)


def is_type(value, name):
    if name in ("integer", "number"):
        right = isinstance(value, (int, float)) and not isinstance(value, bool)
        return right and (name == "number" or value == int(value))
    return isinstance(value, TYPES[name])


def is_date_time(text):
    """RFC 3339: date, T, time, and an offset or Z."""
    if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", text):
        return False
    try:
        datetime.datetime.strptime(text[:19], "%Y-%m-%dT%H:%M:%S")
    except ValueError:
        return False
    return True


FORMATS = {"date-time": is_date_time}


def wrong_object(schema, value, path):
    known = schema.get("properties", {})
    yield from (f"{path}: lacks {key}" for key in schema.get("required", []) if key not in value)
    for key, part in value.items():
        if key in known:
            yield from faults(known[key], part, f"{path}.{key}")
        elif schema.get("additionalProperties") is False:
            yield f"{path}: {key} is not in the schema"
        elif isinstance(schema.get("additionalProperties"), dict):
            yield from faults(schema["additionalProperties"], part, f"{path}.{key}")


def wrong_array(schema, value, path):
    if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
        yield f"{path}: {len(value)} items"
    for i, item in enumerate(value):
        yield from faults(schema.get("items", {}), item, f"{path}[{i}]")


def wrong_string(schema, value, path):
    if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
        yield f"{path}: {len(value)} characters: {value!r}"
    if schema.get("format") in FORMATS and not FORMATS[schema["format"]](value):
        yield f"{path}: {value!r} is no {schema['format']}"
    if not re.search(schema.get("pattern", ""), value):
        yield f"{path}: {value!r} is not as {schema['pattern']}"


def wrong_number(schema, value, path):
    if not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        yield f"{path}: {value} is out of range"


def wrong_choice(choices, value, path):
    """Exactly one fits; else what the nearest one lacks."""
    found = [list(faults(one, value, path)) for one in choices]
    fitting = sum(not one for one in found)
    if fitting > 1:
        yield f"{path}: fits {fitting} of the choices"
    elif not fitting:
        yield from min(found, key=lambda one: (any("is not" in f and ".type:" in f for f in one), len(one)))


WRONG = {dict: wrong_object, list: wrong_array, str: wrong_string, (int, float): wrong_number}


def faults(schema, value, path="line"):
    unknown = {key for key in schema if key[:2] != "x-"} - KNOWN
    yield from (f"{path}: the schema has {key}, which is not known here" for key in sorted(unknown))
    if schema.get("format", "date-time") not in FORMATS:
        yield f"{path}: the schema has format {schema['format']}, which is not known here"
    if "const" in schema and not same(value, schema["const"]):
        yield f"{path}: {value!r} is not {schema['const']!r}"
    if "oneOf" in schema:
        yield from wrong_choice(schema["oneOf"], value, path)
    names = schema.get("type", [])
    names = [names] if isinstance(names, str) else names
    if names and not any(is_type(value, name) for name in names):
        yield f"{path}: {value!r} is no {' or '.join(names)}"
        return
    if "enum" in schema and not any(same(value, one) for one in schema["enum"]):
        yield f"{path}: {value!r} is none of {schema['enum'] if len(schema['enum']) < 20 else 'those listed'}"
    for kind, wrong in WRONG.items():
        if isinstance(value, kind) and not isinstance(value, bool):
            yield from wrong(schema, value, path)
