"""Check the configuration before anything runs, and refuse one that cannot be right."""

import math
import os
from collections.abc import Iterator
from datetime import date
from difflib import get_close_matches
from itertools import chain
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from minilab.config.places import Places
from minilab.config.plausible import Problem, sizes_that_nothing_holds, values_that_are_none
from minilab.errors import ConfigError, LabError
from minilab.yaml_files import own_yaml

PACKAGE = Path(__file__).parents[1]


def brought(name: str) -> Path:
    """A file or folder that lies beside `src` in a checkout, and that an installed package brings along (setup.py)."""
    inside = PACKAGE / "lab" / name
    return inside if inside.exists() else PACKAGE.parents[1] / name


def read_schema(path: str | Path) -> dict:
    """Read a JSON Schema written in YAML. Of one that is not there under its path, `schemas/lock.schema.yaml` say
    outside of a checkout, the lab's own of that name is read."""
    path = Path(path)
    return own_yaml((path if path.is_file() else brought("schemas") / path.name).read_bytes())


def check_schema(value: object, schema: dict, where: str, advice: str | None = None) -> None:
    """Check a value against a JSON Schema.

    Args:
        value: plain data.
        schema: JSON Schema, draft 2020-12.
        where: what the value is, for the message (`config.yaml`, a file's path).
        advice: what to do about a mismatch, where it is not to write another value.

    Raises:
        LabError: the value does not fit; one sentence about the deepest, most telling mismatch.
    """
    error = _mismatch(value, schema)
    if error is not None:
        raise LabError(_sentence(error, where, advice))


# What somebody configures as a whole number has to be one: 42.0 is no seed and no length to whoever takes it.
WHOLE = jsonschema.validators.extend(
    jsonschema.Draft202012Validator,
    type_checker=jsonschema.Draft202012Validator.TYPE_CHECKER.redefine(
        "integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool)
    ),
)


def _mismatch(
    value: object, schema: dict, validator: Any = jsonschema.Draft202012Validator
) -> jsonschema.ValidationError | None:
    return jsonschema.exceptions.best_match(validator(schema).iter_errors(value))


def _sentence(error: jsonschema.ValidationError, where: str, advice: str | None) -> str:
    key = ".".join(map(str, error.absolute_path))
    schema: Any = error.schema
    instance: Any = error.instance
    place = f"{where}: {key}" if key else where
    if error.validator == "additionalProperties" and isinstance(instance, dict):
        known, unknown = sorted(schema.get("properties", {})), _unknown(error)
        near = get_close_matches(unknown, known, n=1)
        known_ones = f"did you mean {near[0]!r}?" if near else f"known keys there are {', '.join(known)}."
        return f"{place} has an unknown key {unknown!r}; {advice or known_ones}"
    if error.validator == "required":
        named: Any = error.validator_value
        missing = sorted(set(named) - set(instance))
        return f"{place} lacks the key {missing[0]!r}; {advice or 'add it.'}"
    if "sentence" in schema:
        return f"{place} is {instance!r}, but {schema['sentence']}."
    return f"{place} cannot be {instance!r}: {error.message}" + (f"; {advice}" if advice else ".")


def _unknown(error: jsonschema.ValidationError) -> str:
    """The first of the keys that the schema does not know."""
    instance: Any = error.instance
    schema: Any = error.schema
    return min(set(instance) - set(schema.get("properties", {})))


def is_for_cpu(entry: dict) -> bool:
    """Whether an entry of `kernels:` is written for a CPU, in C++."""
    return str(entry["source"]).endswith(".cpp")


def check_config(config: dict, schema: dict, places: Places | None = None) -> None:
    """Check the lab's configuration against its schema, then against rules that no schema can express.

    Args:
        config: all of it, as the lab will use it.
        schema: of it.
        places: where its settings stand; by default all in `config.yaml`.

    Raises:
        ConfigError: one sentence that names the place, the key, what is wrong with it and what to write instead.
    """
    places = places or Places(options={"config.yaml": config})
    _refuse(values_that_are_none(config), places)
    error = _mismatch(config, schema, WHOLE)
    if error is not None:
        raise ConfigError(_told_of(error, places))
    _refuse(chain(_contradictions(config), sizes_that_nothing_holds(config)), places)


def _refuse(problems: Iterator[Problem], places: Places) -> None:
    for problem in problems:
        raise ConfigError(f"{places.of(*problem.settings)}: {problem.sentence}")


def _told_of(error: jsonschema.ValidationError, places: Places) -> str:
    """The sentence about a mismatch, with the place where it stands."""
    keys, instance = list(error.absolute_path), error.instance
    wanted: Any = error.validator_value
    if error.validator == "required":
        return _sentence(error, places.around(keys), None)
    if error.validator == "additionalProperties" and isinstance(instance, dict):
        return _sentence(error, places.of([*keys, _unknown(error)]), None)
    if "propertyNames" in error.absolute_schema_path:
        return _sentence(error, places.of([*keys, str(instance)]), None)
    place = places.of(keys)
    if error.validator == "type" and "string" in wanted and isinstance(instance, int | float | date):
        written = places.written(keys) or str(instance)
        as_read = "" if written == str(instance) else f", as YAML reads {written},"
        return (
            f"{place}: {'.'.join(map(str, keys))} is {instance}{as_read} where a text is needed; write it in quotes, "
            f'"{written}".'
        )
    if error.validator == "type" and (number := _meant(instance, wanted)):
        read = f"the text {instance!r} where a" if isinstance(instance, str) else f"{instance} where a whole"
        return f"{place}: {'.'.join(map(str, keys))} is {read} number is needed; write {number}."
    if error.validator == "type" and instance is None:
        return f"{place}: {'.'.join(map(str, keys))} is empty; write what belongs there, or take the line away."
    return _sentence(error, place, None)


def _meant(value: object, wanted: str | list[str]) -> str | None:
    """The number behind a text such as 1e-3, which YAML takes for one, or behind 42.0; None where there is none."""
    try:
        number = float(value) if isinstance(value, str | float) else math.nan
    except ValueError:
        return None
    if "number" in wanted and math.isfinite(number):
        return yaml.safe_dump(number).split()[0]
    return str(int(number)) if "integer" in wanted and number.is_integer() else None


def _contradictions(config: dict) -> Iterator[Problem]:
    """Values that do not go together, or name what is not there."""
    model, kernels = config["model"], config["kernels"]
    if model["n_embd"] % model["n_head"]:
        yield Problem(
            f"model.n_embd is {model['n_embd']}, which model.n_head = {model['n_head']} does not divide; make it a "
            "multiple of the number of heads.",
            ("model", "n_embd"),
            ("model", "n_head"),
        )
    tokens = config["equivalence"]["shape"][1]
    if tokens > model["block_size"]:
        yield Problem(
            f"equivalence.shape asks for {tokens} tokens, but model.block_size is {model['block_size']}; write at most "
            "that.",
            ("equivalence", "shape"),
            ("model", "block_size"),
        )
    swapped, for_gpu = config["swap_kernel"], [name for name, entry in kernels.items() if not is_for_cpu(entry)]
    if swapped not in for_gpu:
        what = "is written for a CPU" if swapped in kernels else "is no kernel"
        one = f"write one of {', '.join(for_gpu)}" if for_gpu else "add one that is not to kernels, and write its name"
        yield Problem(f"swap_kernel is {swapped!r}, which {what}; {one}.", ("swap_kernel",))
    for section in ("kernels", "models"):
        for name, entry in config[section].items():
            source = Path(entry["source"])
            if not (source.is_file() and os.access(source, os.R_OK)):
                unreadable = "is a folder" if source.is_dir() else "you may not read"
                wrong = unreadable if source.exists() else "does not exist"
                yield Problem(
                    f"{section}.{name}.source is {entry['source']!r}, which {wrong}; write the path of the "
                    f"{section.removesuffix('s')}'s file, relative to the project's root.",
                    (section, name, "source"),
                )
