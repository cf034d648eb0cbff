"""Write docs/config.md: every key of the configuration, from the schema that refuses all others."""

import json
from collections.abc import Iterator
from pathlib import Path

import yaml

from minilab.config.check import read_schema

HEAD = """# Every key of config.yaml

Written from `schemas/config.schema.yaml`, which the configuration is held against before anything runs
(`python -m docs.build config` writes it again). A key that is not here, or a value that cannot be, ends the
run with one sentence, which names the file or the command line that it stands in. Change a value in `config.yaml`, or
for one run with `--config`, or lay a file of changes over it with `--configfile`, as `tests/small.yaml` does; with
`--replace-workflow-config` that file is taken instead, and has to be whole. A name that looks like a number (a class
called 0042) goes in quotes in a file; on the command line it is taken as it is typed.

| key | value | shipped | what it means |
|---|---|---|---|
"""
LONGEST = 60  # characters of a shipped value that the table shows


def described(schema: str | Path) -> dict[str, str]:
    """Map the dotted name of every key in the schema to its description, "" where it has none."""
    return {name: inner.get("description", "") for name, inner in _walk(read_schema(schema))}


def document(schema: str | Path, config: str | Path) -> str:
    """Write the text of docs/config.md, from the schema's file and from the configuration's."""
    shipped = yaml.safe_load(Path(config).read_text())
    rows = [
        f"| `{name}` | {_values(inner)} | {_shipped(shipped, name)} | {inner.get('description', '')} |"
        for name, inner in _walk(read_schema(schema))
    ]
    return HEAD + "\n".join(rows) + "\n"


def _walk(root: dict) -> Iterator[tuple[str, dict]]:
    def keys(schema: dict, name: str) -> Iterator[tuple[str, dict]]:
        for key, inner in schema.get("properties", {}).items():
            resolved = _resolved(inner, root)
            yield name + key, resolved
            yield from keys(resolved, f"{name}{key}.")
        if isinstance(schema.get("additionalProperties"), dict):
            yield from keys(_resolved(schema["additionalProperties"], root), f"{name}NAME.")
        if schema.get("type") == "array":
            yield from keys(_resolved(schema.get("items", {}), root), f"{name.removesuffix('.')}[].")

    return keys(root, "")


def _resolved(schema: dict, root: dict) -> dict:
    """Merge a subschema with what its `$ref` points to; its own keys win."""
    if "$ref" not in schema:
        return schema
    target = root["$defs"][schema["$ref"].removeprefix("#/$defs/")]
    return {**_resolved(target, root), **{key: value for key, value in schema.items() if key != "$ref"}}


def _values(schema: dict) -> str:
    """Say in words which values a key takes."""
    if "sentence" in schema:
        return schema["sentence"]
    if "enum" in schema:
        return " or ".join(f"`{json.dumps(value).strip(chr(34))}`" for value in schema["enum"])
    names = schema.get("type", "value")
    kind = " or ".join(names) if isinstance(names, list) else names
    limits = {"minimum": "at least", "exclusiveMinimum": "above", "exclusiveMaximum": "below"}
    said = [f"{word} {schema[limit]}" for limit, word in limits.items() if limit in schema]
    return ", ".join([kind.replace("object", "section"), *said])


def _shipped(config: dict, name: str) -> str:
    """Quote the value of a key in the shipped configuration, cut where it is long; "" for a section."""
    value: object = config
    for key in name.split("."):
        if not isinstance(value, dict) or key not in value:
            return ""
        value = value[key]
    if isinstance(value, dict) and value:
        return ""
    text = json.dumps(value, ensure_ascii=False)
    return f"`{text if len(text) <= LONGEST else text[:LONGEST] + ' ...'}`"
