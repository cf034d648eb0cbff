"""Holds what a user may ask of `maybe_compile` and of the shape buckets, and checks it at once.

The fields that `torch.compile` also has mean what they mean there (https://docs.pytorch.org/docs/stable/generated/
torch.compile.html); the others belong to the safety net around it.
"""

import dataclasses
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Self

import yaml

from minilab import ConfigError
from minilab.files import parse_json, write_text
from minilab.yaml_files import given_text, parse_yaml

MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
FAIL_POLICIES = ("fallback_eager", "raise")


@dataclass
class PlainData:
    """A dataclass of plain data that is read from and written to dictionaries, YAML and JSON."""

    @classmethod
    def from_dict(cls, values: dict, where: str | None = None) -> Self:
        """Build from a dictionary; `where` names its origin in messages.

        Raises:
            ConfigError: it is not a dictionary, has a field that the class lacks, or a value that cannot be.
        """
        where = where or cls.__name__
        if not isinstance(values, dict):
            raise ConfigError(f"{where} is {values!r}, no mapping; write the fields of {cls.__name__} by name.")
        known = [field.name for field in dataclasses.fields(cls)]
        for name in values:
            if name not in known:
                near = get_close_matches(str(name), known, n=1)
                advice = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(known)}."
                raise ConfigError(f"{where} has no field {name!r}; {advice}")
        return cls(**values)

    def to_dict(self) -> dict:
        """Return the fields as plain data: tuples become lists."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    @classmethod
    def from_yaml(cls, text: str, where: str | None = None) -> Self:
        """Build from YAML (of which JSON is a part). Raises `ConfigError` as `from_dict` does, and for bad YAML."""
        where = where or f"the YAML of {cls.__name__}"
        values = parse_yaml(text, where)
        return cls.from_dict({} if values is None else values, where)

    def to_yaml(self) -> str:
        return yaml.safe_dump(self.to_dict(), sort_keys=False)

    @classmethod
    def from_json(cls, text: str, where: str | None = None) -> Self:
        """Build from JSON. Raises `ConfigError` as `from_dict` does, and for bad JSON."""
        where = where or f"the JSON of {cls.__name__}"
        try:
            values = parse_json(text.encode())
        except ValueError as error:
            raise ConfigError(f"{where} is not readable JSON ({error}); mend that place.") from None
        return cls.from_dict(values, where)

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=1)

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read a `.yaml`, `.yml` or `.json` file. Raises `ConfigError` when it is missing or cannot be."""
        path = Path(path)
        if not path.exists():
            raise ConfigError(f"{path} does not exist; write the fields of {cls.__name__} there.")
        read, kind = (cls.from_json, "JSON") if path.suffix == ".json" else (cls.from_yaml, "YAML")
        return read(given_text(path, kind), str(path))

    def write(self, path: str | Path) -> None:
        """Write as JSON where `path` ends in `.json`, as YAML anywhere else."""
        write_text(path, self.to_json() + "\n" if Path(path).suffix == ".json" else self.to_yaml())


def refuse(owner: object, field: str, value: object, must: str) -> None:
    raise ConfigError(f"{type(owner).__name__}.{field} is {value!r}; it must be {must}.")


@dataclass
class CompileConfig(PlainData):
    """How to compile, what to check, and what to do on failure.

    Attributes:
        enabled: False gives the very model back, untouched and unlooked at.
        mode: Inductor's preset: default, reduce-overhead, max-autotune, max-autotune-no-cudagraphs. Other
            backends have no modes and ignore it.
        dynamic: None lets a shape that changes become dynamic, False compiles one graph a shape, True
            assumes dynamic shapes from the start.
        backend: a name that `torch.compiler.list_backends()` knows, or a callable (not for YAML or JSON).
        fullgraph: True makes a graph break a failure.
        options: Inductor's options, which win over those of `mode`.
        allowlist: modules to compile, by qualified name, class name or glob; empty compiles the model.
        blocklist: modules and functions that stay eager, by the same patterns.
        healthcheck: run the smoketest when there is a sample batch.
        fail_policy: `fallback_eager` gives the original model back, `raise` raises.
        smoketest_steps: whole training steps of the smoketest, 1 to 3.
        tolerance: largest relative difference from eager that is not a failure; None takes
            `minicompile.safe.smoketest.numerics.TOLERANCES` by dtype.
        time_limit_seconds: the longest that the compiled steps of the smoketest may take; None is no limit.

    Raises:
        ConfigError: a value cannot be; one sentence.
    """

    enabled: bool = False
    mode: str = "default"
    dynamic: bool | None = None
    backend: str | Callable = "inductor"
    fullgraph: bool = False
    options: dict | None = None
    allowlist: Sequence[str] = ()
    blocklist: Sequence[str] = ()
    healthcheck: bool = True
    fail_policy: str = "fallback_eager"
    smoketest_steps: int = 3
    tolerance: float | None = None
    time_limit_seconds: float | None = 1800.0

    def __post_init__(self) -> None:
        self.validate()

    def validate(self) -> None:
        """Check every field, and make tuples of the lists. Raises `ConfigError`."""
        for field in ("enabled", "fullgraph", "healthcheck"):
            if not isinstance(getattr(self, field), bool):
                refuse(self, field, getattr(self, field), "true or false")
        if self.mode not in MODES:
            refuse(self, "mode", self.mode, f"one of {', '.join(MODES)}")
        if self.dynamic not in (None, False, True) or isinstance(self.dynamic, int) != isinstance(self.dynamic, bool):
            refuse(self, "dynamic", self.dynamic, "null (automatic), false (static) or true (forced)")
        if not (isinstance(self.backend, str) and self.backend) and not callable(self.backend):
            refuse(self, "backend", self.backend, "the name of a backend, such as 'inductor'")
        if self.options is not None and not isinstance(self.options, dict):
            refuse(self, "options", self.options, "null or a mapping of Inductor's options")
        for field in ("allowlist", "blocklist"):
            patterns = getattr(self, field)
            if isinstance(patterns, str) or not isinstance(patterns, Sequence):
                refuse(self, field, patterns, "a list of patterns, even where there is one")
            if not all(isinstance(pattern, str) and pattern for pattern in patterns):
                refuse(self, field, patterns, "a list of names or globs, none of them empty")
            setattr(self, field, tuple(patterns))
        if self.fail_policy not in FAIL_POLICIES:
            refuse(self, "fail_policy", self.fail_policy, f"one of {', '.join(FAIL_POLICIES)}")
        if type(self.smoketest_steps) is not int or not 1 <= self.smoketest_steps <= 3:
            refuse(self, "smoketest_steps", self.smoketest_steps, "1, 2 or 3")
        for field in ("tolerance", "time_limit_seconds"):
            value = getattr(self, field)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not value > 0):
                refuse(self, field, value, "null or a number above zero")


@dataclass
class BucketConfig(PlainData):
    """The lengths that sequences are padded to, and the token that fills them.

    Attributes:
        buckets: lengths in tokens, from short to long; a sequence is padded to the first that holds it.
        pad_token_id: the id that fills the rest.

    Raises:
        ConfigError: the buckets are none, not whole, not positive or not ascending; the token is not an id.
    """

    buckets: Sequence[int] = (256, 512, 1024, 2048)
    pad_token_id: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.buckets, str) or not isinstance(self.buckets, Sequence) or not self.buckets:
            refuse(self, "buckets", self.buckets, "a list of lengths, with at least one")
        if not all(type(length) is int and length > 0 for length in self.buckets):
            refuse(self, "buckets", self.buckets, "whole numbers above zero")
        if list(self.buckets) != sorted(set(self.buckets)):
            refuse(self, "buckets", self.buckets, "sorted from short to long, without repeats")
        if type(self.pad_token_id) is not int or self.pad_token_id < 0:
            refuse(self, "pad_token_id", self.pad_token_id, "a token id: a whole number from zero on")
        self.buckets = tuple(self.buckets)
