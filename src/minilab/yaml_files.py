"""YAML: what somebody wrote is read without surprises, and refused in one sentence; the lab's own is read fast."""

import os
from pathlib import Path
from typing import Any

import yaml

from minilab.errors import ConfigError

LARGEST_NUMBER = 10_000  # bits of a whole number; Python refuses to write out a few thousand more
LARGEST_YAML = 1 << 20  # bytes; the lab's own configuration has some 12,000


class _Loader(yaml.SafeLoader):
    """YAML in which a key stands once and whose numbers can be written out again."""

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        value = super().construct_yaml_int(node)
        if value.bit_length() > LARGEST_NUMBER:
            raise yaml.constructor.ConstructorError(None, None, "the number there is too large", node.start_mark)
        return value

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if (key.tag, key.value) in seen:
                    problem = f"the key {key.value!r} stands twice"
                    raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
                seen.add((key.tag, key.value))
        return super().construct_mapping(node, deep)


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)


def own_yaml(text: str | bytes) -> Any:
    """Read YAML that the lab brings, by libyaml where PyYAML was built with it, which is several times as fast."""
    return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def parse_yaml(text: str, where: str) -> Any:
    """Read YAML that somebody wrote.

    Raises:
        ConfigError: it is no YAML, a key stands twice in it, or it is nested too deeply.
    """
    try:
        return yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error).partition("\n")[0]
        raise ConfigError(f"{where}{place}: {problem}; mend the YAML there.") from None
    except (RecursionError, ValueError) as error:
        problem = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise ConfigError(f"{where} is not readable YAML ({problem}); mend it.") from None


def read_yaml(path: str | Path) -> Any:
    """Read a YAML file that somebody wrote, in UTF-8.

    Raises:
        ConfigError: as `parse_yaml` and `given_text` do.
    """
    return parse_yaml(given_text(path, "YAML"), str(path))


def read_settings(path: str | Path) -> dict:
    """Read a YAML file of settings that somebody wrote.

    Raises:
        ConfigError: as `read_yaml` does, or there is no key in it.
    """
    settings = read_yaml(path)
    if not isinstance(settings, dict):
        raise ConfigError(f"{path} has no settings; write each as KEY: VALUE, or bring it back with `git checkout`.")
    return settings


def given_text(path: str | Path, kind: str) -> str:
    """The text of a file of configuration that somebody wrote, in UTF-8, with or without a byte order mark.

    Args:
        path: the file.
        kind: what it is to hold, for the sentence: YAML or JSON.

    Raises:
        ConfigError: it is missing, is no file, is larger than `LARGEST_YAML` bytes, or is in another encoding.
    """
    path = Path(path)
    if not path.is_file():
        raise ConfigError(f"{path} is no file; write the path of a {kind} file.")
    if not os.access(path, os.R_OK):
        raise ConfigError(f"{path} is a file that you may not read; have its owner change that, or write another path.")
    with path.open("rb") as file:
        data = file.read(LARGEST_YAML + 1)
    if len(data) > LARGEST_YAML:
        raise ConfigError(f"{path} is larger than {LARGEST_YAML >> 20} MiB, which is no configuration; write less.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ConfigError(f"{path}, line {line}: it is not UTF-8; save the file in that encoding.") from None
