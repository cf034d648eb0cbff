"""The settings of `--config KEY=VALUE`, each with the type that its key has in the schema.

Snakemake makes a number of whatever looks like one, so that a folder called 0042 would arrive as 42, keeps what is
nested as texts, and lets a name overrule the section of the same key. Here the schema decides.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any, NamedTuple

import jsonschema
import yaml

from minilab.config.places import merged
from minilab.errors import ConfigError
from minilab.yaml_files import parse_yaml


class Options(NamedTuple):
    """What a command line sets.

    Attributes:
        settings: the values by their keys.
        model: the name that `model=NAME` gives beside the section of that key; None where it was not given.
    """

    settings: dict[str, Any]
    model: str | None

    def by_place(self, command_line: Iterable[str]) -> dict[str, dict]:
        """The settings by the place where they stand: on the command line itself, or in a profile, which adds to it."""
        typed = list(command_line)
        places: dict[str, dict] = {"the profile": {}, "the command line": {}}
        for key, value in self.settings.items():
            is_typed = any(f"{key}=" in argument for argument in typed)
            places["the command line" if is_typed else "the profile"][key] = value
        return places


def read_options(arguments: Iterable[str], schema: dict) -> Options:
    """Read the values of `--config`.

    Args:
        arguments: KEY=VALUE each, as they were typed.
        schema: of the configuration.
    """
    settings: dict[str, Any] = {}
    model = None
    for argument in arguments:
        key, _, text = argument.partition("=")
        text = text.strip("'\"")
        inner = _inner(schema, key, schema)
        value = text
        if not inner or inner.get("type") == "object":
            with suppress(yaml.YAMLError, RecursionError):  # else it stays a text, which the schema refuses
                value = as_the_schema_says(yaml.load(text, yaml.BaseLoader), inner, schema)
        if key == "model" and not isinstance(value, dict):
            model = text
        else:
            settings[key] = merged(settings.get(key), value)
    return Options(settings, model)


def as_the_schema_says(value: Any, schema: dict, root: dict) -> Any:
    """A value whose scalars are texts, each as YAML reads it, or as the text where that alone fits the schema.

    Args:
        value: texts, and lists and dictionaries of them.
        schema: of the value.
        root: the whole schema, whose definitions it names.
    """
    if isinstance(value, dict):
        return {key: as_the_schema_says(inner, _inner(schema, key, root), root) for key, inner in value.items()}
    if isinstance(value, list):
        return [as_the_schema_says(inner, _inner(schema, None, root), root) for inner in value]
    try:
        read = parse_yaml(value or "", "")
    except ConfigError:
        return value
    fits = jsonschema.Draft202012Validator(root).evolve(schema=schema).is_valid
    return value if isinstance(read, dict | list) or (fits(value) and not fits(read)) else read


def spelled_alike(value: Any, schema: dict, root: dict) -> Any:
    """A value with 1 for 1.0 wherever the schema asks for a number: Snakemake takes another spelling for a change.

    Args:
        value, schema, root: as `as_the_schema_says` takes them, but that scalars are what YAML reads.
    """
    if isinstance(value, dict):
        return {key: spelled_alike(inner, _inner(schema, key, root), root) for key, inner in value.items()}
    if isinstance(value, list):
        return [spelled_alike(inner, _inner(schema, None, root), root) for inner in value]
    asked = isinstance(value, float) and "number" in schema.get("type", ())
    return int(value) if asked and value.is_integer() else value


def _inner(schema: dict, key: str | None, root: dict) -> dict:
    """The schema of what stands under a key of a section, or in a list where there is no key; {}: unknown."""
    for form in [schema, *schema.get("oneOf", ())]:
        named = form.get("properties", {}).get(key) if key else form.get("items")
        if not named and key and isinstance(form.get("additionalProperties"), dict):
            named = form["additionalProperties"]
        if named:
            defined = root["$defs"][named["$ref"].rpartition("/")[2]] if "$ref" in named else {}
            return {**defined, **{name: value for name, value in named.items() if name != "$ref"}}
    return {}
