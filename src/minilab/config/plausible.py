"""Whether a configuration can be meant: values that YAML can hold and the lab cannot, and sizes that nothing could."""

import math
from collections.abc import Iterator
from typing import Any

from minilab.errors import ConfigError

MOST_VALUES = (
    100_000  # of a configuration, each use of a YAML alias counted: a few lines of them can stand for billions
)
LONGEST_TEXT = 1000  # characters of a key or a text
# Elements of a timed shape. Inputs rotate through three times the cache, so tiny ones would be millions of tensors.
FEWEST_ELEMENTS, MOST_ELEMENTS = 1024, 1 << 31
MOST_PARAMETERS = 1 << 31  # of a model: 8 GiB of float32
TIMED_SHAPES = ("bench.cuda.shapes", "bench.cpu.shapes", "contest.shapes", "contest.host_shapes", "autotune.shapes",
                "gemv.shapes")  # fmt: skip


def check_values(config: dict, where: str) -> None:
    """Refuse keys that are no text, numbers that are none, and texts that nobody would write.

    Raises:
        ConfigError: the first of them, with its place; or there are more values than anybody writes.
    """
    for count, (place, value) in enumerate(_values(config)):
        if count > MOST_VALUES:
            raise ConfigError(f"{where} stands for more than {MOST_VALUES:,} values; write less, or fewer aliases.")
        if isinstance(value, float) and not math.isfinite(value):
            raise ConfigError(f"{where}: {place} is {value}, which is no number to compute with; write a finite one.")
        if isinstance(value, str):
            _check_text(value, place, where)
        for key in value if isinstance(value, dict) else ():
            inside = place or "the configuration"
            if isinstance(key, str):
                _check_text(key, f"a key of {inside}", where)
                continue
            said = f"{str(key).lower()} (as YAML reads on, off, yes and no)" if isinstance(key, bool) else repr(key)
            raise ConfigError(
                f"{where}: a key of {inside} is {said} where a name is needed; write another name, or this one in "
                "quotes."
            )


def _check_text(text: str, place: str, where: str) -> None:
    if len(text) > LONGEST_TEXT:
        raise ConfigError(f"{where}: {place} is a text of {len(text):,} characters; write at most {LONGEST_TEXT:,}.")
    if not text.isprintable():
        raise ConfigError(f"{where}: {place} is {text!r}, which holds what cannot be printed; write it on one line.")


def _values(config: Any) -> Iterator[tuple[str, Any]]:
    """Each value and the place where it stands, such as training.phases.0."""
    waiting = [("", config)]
    while waiting:
        place, held = waiting.pop()
        yield place, held
        inside = held.items() if isinstance(held, dict) else enumerate(held) if isinstance(held, list) else ()
        waiting += [(f"{place}.{key}" if place else str(key), value) for key, value in inside]


def check_sizes(config: dict, where: str) -> None:
    """Refuse sizes whose product nothing could hold, and parts of the training that do not fit together.

    Args:
        config: a configuration that fits its schema.

    Raises:
        ConfigError: the first of them.
    """
    for name in TIMED_SHAPES:
        *sections, last = name.split(".")
        section = config
        for part in sections:
            section = section[part]
        for rows, cols in section[last]:
            if not FEWEST_ELEMENTS <= rows * cols <= MOST_ELEMENTS:
                raise ConfigError(
                    f"{where}: {name} has [{rows}, {cols}], which is {rows * cols:,} elements; write a shape of "
                    f"{FEWEST_ELEMENTS:,} to {MOST_ELEMENTS:,}."
                )
    model = config["model"]
    parameters = 12 * model["n_layer"] * model["n_embd"] ** 2 + model["block_size"] * model["n_embd"]
    if parameters > MOST_PARAMETERS:
        raise ConfigError(
            f"{where}: the sizes in model make more than {parameters:,} parameters; write sizes that make at most "
            f"{MOST_PARAMETERS:,}."
        )
    for number, phase in enumerate(config["training"]["phases"]):
        if phase["time"] > model["block_size"]:
            raise ConfigError(
                f"{where}: training.phases.{number}.time is {phase['time']}, and model.block_size is "
                f"{model['block_size']}; write at most that."
            )
    corpus = config["corpus"]
    if corpus["held_out"] >= corpus["sentences"]:
        raise ConfigError(
            f"{where}: corpus.held_out is {corpus['held_out']} of {corpus['sentences']} sentences; write fewer, so "
            "that some are left to train on."
        )
