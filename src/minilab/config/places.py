"""Where a setting stands: in which file of configuration, on the command line, or in several of them.

Snakemake lays them over one another and hands over what comes out. So that a refusal names the place to mend, they are
read once more, each by itself; only a refusal asks.
"""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from minilab.errors import LabError
from minilab.yaml_files import given_text, parse_yaml

WHOLE = "the configuration"
ABSENT = object()


class Places:
    """What each place says of the configuration.

    Args:
        files: the files whose keys count, from the one that yields to all others to the one that none overrules.
        options: place -> what was given there beside files, which overrules them.
    """

    def __init__(self, files: Sequence[str | Path] = (), options: dict[str, dict] | None = None) -> None:
        self._files, self._options = [Path(file) for file in files], options or {}

    @cached_property
    def _layers(self) -> dict[str, Any]:
        read = {}
        for file in self._files:
            shown = file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file
            try:
                read[str(shown)] = parse_yaml(given_text(file, "YAML"), str(file))
            except LabError:  # Snakemake reads more than YAML: what is in it is not known here
                read[str(shown)] = {}
        return {place: settings for place, settings in (read | self._options).items() if settings}

    def of(self, *settings: Sequence[str | int]) -> str:
        """The place that decides a setting, or those that decide several of them: `small.yaml and the command line`.

        Args:
            settings: each as the keys that lead to it, such as ("training", "phases", 0).
        """
        found = dict.fromkeys(self._place(keys) for keys in settings)
        return self.around(()) if None in found or not found else " and ".join(map(str, found))

    def in_files(self, section: str) -> dict:
        """What the files say of a section, options left out: the section by its key, or {} where no file has it."""
        found: dict = {}
        for place, settings in self._layers.items():
            if place not in self._options and section in settings:
                found = merged(found, {section: settings[section]})
        return found

    def around(self, keys: Sequence[str | int]) -> str:
        """The only place that says anything of a section, and where there are several: the configuration."""
        found = [place for place, settings in self._layers.items() if _value(settings, keys) is not ABSENT]
        return found[0] if len(found) == 1 else WHOLE

    def written(self, keys: Sequence[str | int]) -> str | None:
        """A value as it is written in its file, before YAML makes a number of it; None where no file decides it."""
        file = self._place(keys)
        if not file or file in self._options:
            return None
        text = _value(yaml.load(given_text(file, "YAML"), yaml.BaseLoader), keys)
        return text if isinstance(text, str) else None

    def _place(self, keys: Sequence[str | int]) -> str | None:
        deciding = [place for place, settings in self._layers.items() if _value(settings, keys) is not ABSENT]
        return deciding[-1] if deciding else None


def _value(settings: Any, keys: Sequence[str | int]) -> Any:
    """What settings say at the end of these keys, what stands in their way where that is no section, or ABSENT."""
    for key in keys:
        if isinstance(settings, dict):
            if key not in settings:
                return ABSENT
            settings = settings[key]
        elif isinstance(settings, list) and isinstance(key, int) and key < len(settings):
            settings = settings[key]
        else:
            return settings
    return settings


def merged(under: Any, over: Any) -> Any:
    """A value laid over another as Snakemake does it: sections key by key, all else in its place."""
    if not isinstance(over, dict):
        return over
    kept = under if isinstance(under, dict) else {}
    return kept | {key: merged(kept.get(key), value) for key, value in over.items()}
