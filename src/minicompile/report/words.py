"""Words what stage 25's pages share: sizes, times, kernels' names, and the reasons that artefacts hold as codes.

The labels are in `locale/{language}/common.yaml`.
"""

import re
import textwrap
from collections.abc import Callable, Iterable
from functools import partial

from minilab.device import short_name
from minilab.pages.translations import Translations, number
from minilab.records.words import worded

KERNEL_WIDTH = 46  # characters of a kernel's name


def common(language: str) -> Translations:
    """Return the labels that all pages share."""
    return Translations("minicompile.report", "common", language)


def size(language: str, count: float | None) -> str:
    """Write a number of bytes with its unit: `16.9 MB`; nothing where it is not known."""
    if count is None:
        return ""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{number(language, count / scale, '.3g')} {unit}"
    return f"{number(language, count, '.0f')} B"


def duration(language: str, microseconds: float) -> str:
    """Write a time with its unit: `12.3 µs`, `1,234 ms`."""
    if abs(microseconds) < 999.5:
        return f"{number(language, microseconds, ',.3g')} µs"
    return f"{number(language, microseconds / 1e3, ',.4g')} ms"


def shape(language: str, axes: Iterable[int]) -> str:
    """Write a tensor's shape as Python writes a tuple: `(8, 32)`."""
    return f"({', '.join(number(language, size) for size in axes)})"


def counted(language: str, count: int, what: str) -> str:
    """Write how many there are of something, by its key under `count`: `1 recompile`, `2 recompiles`."""
    return common(language)(f"count.{what}", count=count)


def kernel_number(name: str) -> str:
    """Return the number that Inductor ends a kernel's name in; empty where it ends in none."""
    return name[len(name.rstrip("0123456789")) :]


def short_kernel(language: str, name: str) -> str:
    """Shorten a kernel's name: `3  softmax div` for `triton_per_fused__softmax_div_3`."""
    counted = kernel_number(name)
    numbered = number(language, int(counted)) if counted else ""
    return f"{numbered}  {textwrap.shorten(fused_operations(name), KERNEL_WIDTH, placeholder=' ...')}"


def fused_operations(name: str) -> str:
    """Return what a kernel's name says that was fused: `softmax div` for `triton_per_fused__softmax_div_3`."""
    return " ".join(re.sub(r"^(cpp|triton_[a-z]+)_fused_+|_\d+$", "", name).replace("_", " ").split())


def failure(language: str, failed: dict) -> str:
    """Say in a few words why a compile was given up (`minicompile.safe.failures.coded`)."""
    text, fields = common(language), dict(failed)
    code = fields.pop("code")
    if code == "raised":  # the compiler's own words, which have no translation
        return ": ".join(part for part in (fields["exception"], fields["message"]) if part)
    if code == "other_rank":
        fields["failure"] = failure(language, fields["failure"])
    numbers = {name: number(language, value, ".3g") for name, value in fields.items() if isinstance(value, float)}
    return text(f"failure.{code}", **{**fields, **numbers})


def complaint(language: str, found: dict) -> str:
    """Word one of the complaints of a `compile_health.json`."""
    fields = {**found, "failure": failure(language, found["failure"])} if found.get("failure") else found
    return common(language)(f"complaint.{found['code']}", **fields)


def origin(language: str, artefact: dict) -> dict[str, str]:
    """Say for a picture's title on what, how and when its figures were made: `name`, `source` and `date`."""
    made = artefact["provenance"]
    gpu = made["hardware"]["gpu"]
    return {
        "name": short_name(gpu["name"] if gpu else made["hardware"]["cpu"]),
        "source": common(language)("origin.restored" if "restored" in artefact else "origin.measured"),
        "date": made["date"][:10],
    }


def is_stale(artefact: dict) -> bool:
    """Say whether an artefact was restored from a record that no longer describes this checkout."""
    return artefact.get("restored", {}).get("stale", False)


def filters(language: str) -> dict[str, Callable]:
    """Return these functions for templates, by the names that they have there."""
    return {
        "size": partial(size, language),
        "time": partial(duration, language),
        "shape": partial(shape, language),
        "counted": partial(counted, language),
        "judged": lambda verdict: common(language)(f"verdict.{verdict}"),
        "kernel": partial(short_kernel, language),
        "direction": lambda code: common(language)(f"direction.{code}"),
        "failure": partial(failure, language),
        "complaint": partial(complaint, language),
        "stale": partial(worded, language=language),
    }
