# SPDX-License-Identifier: Apache-2.0
"""The part of JSON Schema that schemas/incident.schema.json uses: faults(schema, value) yields a text each. A keyword
that is not known here is a fault of the schema: none goes unchecked."""
import re

KNOWN = {"$schema", "$id", "$comment", "title", "description", "type", "enum", "properties", "required",
         "additionalProperties", "items", "minItems", "maxItems", "minLength", "pattern", "minimum", "maximum"}
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


def same(a, b):
    """In Python 1 == 1.0 == True; in JSON Schema the first two are."""
    return a == b and isinstance(a, bool) == isinstance(b, bool)


def is_type(value, name):
    if name in ("integer", "number"):
        right = isinstance(value, (int, float)) and not isinstance(value, bool)
        return right and (name == "number" or value == int(value))
    return isinstance(value, TYPES[name])


def wrong_object(schema, value, path):
    known = schema.get("properties", {})
    yield from (f"{path}: lacks {key}" for key in schema.get("required", []) if key not in value)
    for key, part in value.items():
        if key in known:
            yield from faults(known[key], part, f"{path}.{key}")
        elif schema.get("additionalProperties") is False:
            yield f"{path}: {key} is not in the schema"


def wrong_array(schema, value, path):
    if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
        yield f"{path}: {len(value)} items"
    for i, item in enumerate(value):
        yield from faults(schema.get("items", {}), item, f"{path}[{i}]")


def wrong_string(schema, value, path):
    if len(value) < schema.get("minLength", 0):
        yield f"{path}: too short: {value!r}"
    if not re.search(schema.get("pattern", ""), value):
        yield f"{path}: {value!r} is not as {schema['pattern']}"


def wrong_number(schema, value, path):
    if not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        yield f"{path}: {value} is out of range"


WRONG = {dict: wrong_object, list: wrong_array, str: wrong_string, (int, float): wrong_number}


def faults(schema, value, path="line"):
    unknown = {key for key in schema if key[:2] != "x-"} - KNOWN
    yield from (f"{path}: the schema has {key}, which is not known here" for key in sorted(unknown))
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
