"""Check the configuration before anything runs, and refuse one that cannot be right."""

from collections.abc import Iterator
from difflib import get_close_matches
from itertools import chain
from pathlib import Path
from typing import Any

import jsonschema

from minilab.config.plausible import sizes_that_nothing_holds, values_that_are_none
from minilab.errors import ConfigError, LabError
from minilab.yaml_files import own_yaml


def read_schema(path: str | Path) -> dict:
    """Read a JSON Schema written in YAML."""
    return own_yaml(Path(path).read_bytes())


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
    validator = jsonschema.Draft202012Validator(schema)
    error = jsonschema.exceptions.best_match(validator.iter_errors(value))
    if error is not None:
        raise LabError(_sentence(error, where, advice))


def _sentence(error: jsonschema.ValidationError, where: str, advice: str | None) -> str:
    key = ".".join(map(str, error.absolute_path))
    schema: Any = error.schema
    instance: Any = error.instance
    named: Any = error.validator_value
    place = f"{where}: {key}" if key else where
    if error.validator == "additionalProperties" and isinstance(instance, dict):
        known = sorted(schema.get("properties", {}))
        unknown = sorted(set(instance) - set(known))
        near = get_close_matches(unknown[0], known, n=1)
        known_ones = f"did you mean {near[0]!r}?" if near else f"known keys there are {', '.join(known)}."
        return f"{place} has an unknown key {unknown[0]!r}; {advice or known_ones}"
    if error.validator == "required":
        missing = sorted(set(named) - set(instance))
        return f"{place} lacks the key {missing[0]!r}; {advice or 'add it.'}"
    if "sentence" in schema:
        return f"{place} is {instance!r}, but {schema['sentence']}."
    return f"{place} cannot be {instance!r}: {error.message}" + (f"; {advice}" if advice else ".")


def is_for_cpu(entry: dict) -> bool:
    """Whether an entry of `kernels:` is written for a CPU, in C++."""
    return str(entry["source"]).endswith(".cpp")


def check_config(config: dict, schema: dict) -> None:
    """Check the lab's configuration against its schema, then against rules that no schema can express.

    Raises:
        ConfigError: one sentence that names the key, what is wrong with it and what to write instead.
    """
    for problem in values_that_are_none(config):
        raise ConfigError(f"config.yaml: {problem}")
    try:
        check_schema(config, schema, "config.yaml")
    except LabError as error:
        raise ConfigError(str(error)) from None
    for problem in chain(_contradictions(config), sizes_that_nothing_holds(config)):
        raise ConfigError(f"config.yaml: {problem}")


def _contradictions(config: dict) -> Iterator[str]:
    """Values that do not go together, or name what is not there, a sentence each."""
    model, kernels = config["model"], config["kernels"]
    if model["n_embd"] % model["n_head"]:
        yield (
            f"model.n_embd is {model['n_embd']}, which model.n_head = {model['n_head']} does not divide; make it a "
            "multiple of the number of heads."
        )
    tokens = config["equivalence"]["shape"][1]
    if tokens > model["block_size"]:
        yield (
            f"equivalence.shape asks for {tokens} tokens, but model.block_size is {model['block_size']}; write at most "
            "that."
        )
    swapped, for_gpu = config["swap_kernel"], [name for name, entry in kernels.items() if not is_for_cpu(entry)]
    if swapped not in for_gpu:
        what = "is written for a CPU" if swapped in kernels else "is no kernel"
        yield f"swap_kernel is {swapped!r}, which {what}; write one of {', '.join(for_gpu)}."
    for section in ("kernels", "models"):
        for name, entry in config[section].items():
            source = Path(entry["source"])
            if not source.is_file():
                wrong = "is a folder" if source.exists() else "does not exist"
                yield (
                    f"{section}.{name}.source is {entry['source']!r}, which {wrong}; write the path of the "
                    f"{section.removesuffix('s')}'s file, relative to the project's root."
                )
