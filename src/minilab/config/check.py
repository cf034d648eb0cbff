"""Check the configuration before anything runs, and refuse one that cannot be right."""

from difflib import get_close_matches
from pathlib import Path
from typing import Any

import jsonschema

from minilab.config.plausible import check_sizes, check_values
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


def check_config(config: dict, schema: dict, where: str = "config.yaml") -> None:
    """Check the lab's configuration against its schema, then against rules that no schema can express.

    Raises:
        ConfigError: one sentence that names the key, what is wrong with it and what to write instead.
    """
    check_values(config, where)
    try:
        check_schema(config, schema, where)
    except LabError as error:
        raise ConfigError(str(error)) from None
    model, kernels = config["model"], config["kernels"]
    if model["n_embd"] % model["n_head"]:
        raise ConfigError(
            f"{where}: model.n_embd is {model['n_embd']}, which model.n_head = {model['n_head']} does not divide; "
            f"make it a multiple of the number of heads."
        )
    tokens = config["equivalence"]["shape"][1]
    if tokens > model["block_size"]:
        raise ConfigError(
            f"{where}: equivalence.shape asks for {tokens} tokens, but model.block_size is {model['block_size']}; "
            f"write at most that."
        )
    swapped, for_gpu = config["swap_kernel"], [name for name, entry in kernels.items() if not is_for_cpu(entry)]
    if swapped not in for_gpu:
        what = "is written for a CPU" if swapped in kernels else "is no kernel"
        raise ConfigError(f"{where}: swap_kernel is {swapped!r}, which {what}; write one of {', '.join(for_gpu)}.")
    for section in ("kernels", "models"):
        for name, entry in config[section].items():
            source = Path(entry["source"])
            if not source.is_file():
                wrong = "is a folder" if source.exists() else "does not exist"
                raise ConfigError(
                    f"{where}: {section}.{name}.source is {entry['source']!r}, which {wrong}; "
                    f"write the path of the {section.removesuffix('s')}'s file, relative to the project's root."
                )
    check_sizes(config, where)
    for kind, shape in config["roofline"]["headline"].items():
        if shape not in config["bench"][kind]["shapes"]:
            raise ConfigError(
                f"{where}: roofline.headline.{kind} is {shape}, which is not among bench.{kind}.shapes; "
                f"write one of those."
            )
