"""Whether a configuration can be meant: values that YAML can hold and the lab cannot, and sizes that nothing could."""

import math
from collections.abc import Iterator
from typing import Any

MOST_VALUES = 100_000  # each use of a YAML alias counted: a few lines of them can stand for billions
LONGEST_TEXT = 1000  # characters of a key or a text
# Elements of a timed shape. Inputs rotate through three times the cache, so tiny ones would be millions of tensors.
FEWEST_ELEMENTS, MOST_ELEMENTS = 1024, 1 << 31
MOST_PARAMETERS = 1 << 31  # of a model: 8 GiB of float32
TIMED_SHAPES = ("bench.cuda.shapes", "bench.cpu.shapes", "contest.shapes", "contest.host_shapes", "autotune.shapes",
                "gemv.shapes")  # fmt: skip


def values_that_are_none(config: dict) -> Iterator[str]:
    """What is wrong with keys that are no text, numbers that are none, and texts that nobody would write: sentences."""
    for count, (place, value) in enumerate(_values(config)):
        if count > MOST_VALUES:
            yield f"all of it stands for more than {MOST_VALUES:,} values; write less, or fewer aliases."
            return
        if isinstance(value, float) and not math.isfinite(value):
            yield f"{place} is {value}, which is no number to compute with; write a finite one."
        if isinstance(value, str):
            yield from _wrong_text(value, place)
        for key in value if isinstance(value, dict) else ():
            inside = place or "the configuration"
            if isinstance(key, str):
                yield from _wrong_text(key, f"a key of {inside}")
                continue
            said = f"{str(key).lower()} (as YAML reads on, off, yes and no)" if isinstance(key, bool) else repr(key)
            yield f"a key of {inside} is {said} where a name is needed; write another name, or this one in quotes."


def _wrong_text(text: str, place: str) -> Iterator[str]:
    if len(text) > LONGEST_TEXT:
        yield f"{place} is a text of {len(text):,} characters; write at most {LONGEST_TEXT:,}."
    elif not text.isprintable():
        yield f"{place} is {text!r}, which holds what cannot be printed; write it on one line."


def _values(config: Any) -> Iterator[tuple[str, Any]]:
    """Each value and the place where it stands, such as training.phases.0."""
    waiting = [("", config)]
    while waiting:
        place, held = waiting.pop()
        yield place, held
        inside = held.items() if isinstance(held, dict) else enumerate(held) if isinstance(held, list) else ()
        waiting += [(f"{place}.{key}" if place else str(key), value) for key, value in inside]


def sizes_that_nothing_holds(config: dict) -> Iterator[str]:
    """Sizes whose product nothing could hold, and sizes that do not fit together, a sentence each.

    Args:
        config: a configuration that fits its schema.
    """
    for name in TIMED_SHAPES:
        *sections, last = name.split(".")
        section = config
        for part in sections:
            section = section[part]
        for rows, cols in section[last]:
            if not FEWEST_ELEMENTS <= rows * cols <= MOST_ELEMENTS:
                yield (
                    f"{name} has [{rows}, {cols}], which is {rows * cols:,} elements; write a shape of "
                    f"{FEWEST_ELEMENTS:,} to {MOST_ELEMENTS:,}."
                )
    model, corpus = config["model"], config["corpus"]
    parameters = 12 * model["n_layer"] * model["n_embd"] ** 2 + model["block_size"] * model["n_embd"]
    if parameters > MOST_PARAMETERS:
        yield (
            f"the sizes in model make more than {parameters:,} parameters; write sizes that make at most "
            f"{MOST_PARAMETERS:,}."
        )
    for number, phase in enumerate(config["training"]["phases"]):
        if phase["time"] > model["block_size"]:
            yield (
                f"training.phases.{number}.time is {phase['time']}, and model.block_size is {model['block_size']}; "
                "write at most that."
            )
    if corpus["held_out"] >= corpus["sentences"]:
        yield (
            f"corpus.held_out is {corpus['held_out']} of {corpus['sentences']} sentences; write fewer, so that some "
            "are left to train on."
        )
    for kind, shape in config["roofline"]["headline"].items():
        if shape not in config["bench"][kind]["shapes"]:
            yield f"roofline.headline.{kind} is {shape}, which is not among bench.{kind}.shapes; write one of those."
