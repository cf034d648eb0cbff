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


Keys = tuple[str | int, ...]  # that lead to a setting, such as ("training", "phases", 0)


class Problem:
    """What is wrong with a configuration.

    Attributes:
        sentence: what, and what to write instead.
        settings: the keys of each setting that it is about; none where it is about all of them.
    """

    def __init__(self, sentence: str, *settings: Keys) -> None:
        self.sentence, self.settings = sentence, settings


def values_that_are_none(config: dict) -> Iterator[Problem]:
    """What is wrong with keys that are no text, numbers that are none, and texts that nobody would write."""
    for count, (trail, value) in enumerate(_values(config)):
        if count > MOST_VALUES:
            yield Problem(f"all of it stands for more than {MOST_VALUES:,} values; write less, or fewer aliases.")
            return
        wrong = None
        if isinstance(value, float) and not math.isfinite(value):
            wrong = f"{value}, which is no number to compute with; write a finite one."
        elif isinstance(value, str):
            wrong = _wrong_text(value)
        if wrong:
            keys = _keys(trail)
            yield Problem(f"{'.'.join(map(str, keys))} is {wrong}", keys)
        for key in value if isinstance(value, dict) else ():
            if isinstance(key, str):
                wrong = _wrong_text(key)
            else:
                said = f"{str(key).lower()} (as YAML reads on, off, yes and no)" if isinstance(key, bool) else repr(key)
                wrong = f"{said} where a name is needed; write another name, or this one in quotes."
            if wrong:
                keys = _keys(trail)
                yield Problem(f"a key of {'.'.join(map(str, keys)) or 'the configuration'} is {wrong}", (*keys, key))


def _wrong_text(text: str) -> str | None:
    if len(text) > LONGEST_TEXT:
        return f"a text of {len(text):,} characters; write at most {LONGEST_TEXT:,}."
    return None if text.isprintable() else f"{text!r}, which holds what cannot be printed; write it on one line."


def _values(config: Any) -> Iterator[tuple[tuple, Any]]:
    """Each value and the trail to it: the trail to what holds it, and its key there."""
    waiting: list[tuple[tuple, Any]] = [((), config)]
    while waiting:
        trail, held = waiting.pop()
        yield trail, held
        inside = held.items() if isinstance(held, dict) else enumerate(held) if isinstance(held, list) else ()
        waiting += [((trail, key), value) for key, value in inside]


def _keys(trail: tuple) -> Keys:
    """The keys of a trail, from the outermost."""
    keys: list[str | int] = []
    while trail:
        trail, key = trail
        keys.insert(0, key)
    return tuple(keys)


def sizes_that_nothing_holds(config: dict) -> Iterator[Problem]:
    """Sizes whose product nothing could hold, and sizes that do not fit together.

    Args:
        config: a configuration that fits its schema.
    """
    for name in TIMED_SHAPES:
        *sections, last = keys = tuple(name.split("."))
        section = config
        for part in sections:
            section = section[part]
        for rows, cols in section[last]:
            if not FEWEST_ELEMENTS <= rows * cols <= MOST_ELEMENTS:
                yield Problem(
                    f"{name} has [{rows}, {cols}], which is {rows * cols:,} elements; write a shape of "
                    f"{FEWEST_ELEMENTS:,} to {MOST_ELEMENTS:,}.",
                    keys,
                )
    model, corpus = config["model"], config["corpus"]
    parameters = 12 * model["n_layer"] * model["n_embd"] ** 2 + model["block_size"] * model["n_embd"]
    if parameters > MOST_PARAMETERS:
        yield Problem(
            f"the sizes in model make more than {parameters:,} parameters; write sizes that make at most "
            f"{MOST_PARAMETERS:,}.",
            *(("model", size) for size in ("n_layer", "n_embd", "block_size")),
        )
    for number, phase in enumerate(config["training"]["phases"]):
        if phase["time"] > model["block_size"]:
            yield Problem(
                f"training.phases.{number}.time is {phase['time']}, and model.block_size is {model['block_size']}; "
                "write at most that.",
                ("training", "phases", number, "time"),
                ("model", "block_size"),
            )
    if corpus["held_out"] >= corpus["sentences"]:
        yield Problem(
            f"corpus.held_out is {corpus['held_out']} of {corpus['sentences']} sentences; write fewer, so that some "
            "are left to train on.",
            ("corpus", "held_out"),
            ("corpus", "sentences"),
        )
    for kind, shape in config["roofline"]["headline"].items():
        if shape not in config["bench"][kind]["shapes"]:
            yield Problem(
                f"roofline.headline.{kind} is {shape}, which is not among bench.{kind}.shapes; write one of those.",
                ("roofline", "headline", kind),
                ("bench", kind, "shapes"),
            )
