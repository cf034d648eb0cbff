"""Which figures moved between two measurements of the same things, beyond the noise of both.

The noise of one median is the wider of two spans: how far a duplicate of the provider lay from it in the same
process, and half the 95 % confidence interval of the median, which the order statistics of its raw samples give
without any assumption about their distribution (Conover, Practical Nonparametric Statistics, 1999, section 3.2).
"""

import math
import statistics
from dataclasses import dataclass

HALF_WIDTH = 0.98  # of the interval, in ranks, over the root of the number of samples: 1.96 sqrt(n / 4)


@dataclass
class Figure:
    """One measured figure, in microseconds unless its name says otherwise."""

    median: float
    noise: float  # relative


def figure(samples: list[float], noise_floor: float | None = None) -> Figure:
    """The median of raw samples, at least one, and its relative noise; `noise_floor` is a duplicate's distance."""
    ordered, median = sorted(samples), statistics.median(samples)
    # The interval of the median in ranks, by the binomial distribution: samples so far from the middle on either side.
    middle, reach = (len(ordered) - 1) / 2, HALF_WIDTH * math.sqrt(len(ordered))
    low, high = max(0, math.floor(middle - reach)), min(len(ordered) - 1, math.ceil(middle + reach))
    # whichever is wider: samples of one run agree with each other more than two runs do
    return Figure(median, max((ordered[high] - ordered[low]) / 2 / median, noise_floor or 0.0))


def moved(before: dict[str, Figure], after: dict[str, Figure]) -> list[str]:
    """One sentence for each figure that moved by more than the noise of both, the largest move first."""
    moves = []
    for name in before.keys() & after.keys():
        old, new = before[name], after[name]
        # what either of the two measurements could be off by may add up
        change, noise = new.median / old.median - 1, old.noise + new.noise
        if abs(change) > noise:
            sentence = f"{name}: {old.median:.6g} -> {new.median:.6g} ({change:+.1%}, noise {noise:.1%})"
            moves.append((abs(change), sentence))
    return [sentence for _, sentence in sorted(moves, reverse=True)]


def only_in_one(before: dict[str, Figure], after: dict[str, Figure]) -> list[str]:
    """One sentence for each figure that only one of the two measured."""
    gone = [f"{name}: only in the record" for name in before.keys() - after.keys()]
    return sorted([*gone, *(f"{name}: only measured now" for name in after.keys() - before.keys())])


def figures(artefact: dict) -> dict[str, Figure]:
    """Every figure of an artefact that has raw samples, by a name that says what it is.

    Args:
        artefact: any that is timed in the table of artefacts, with its raw samples.
    """
    found = {}
    # the kinds of artefact, by the keys that each has: ceilings, softmax and head and host, tuning, profiles, products
    for roof, rates in artefact.get("samples", {}).items():
        for number, rate in enumerate(rates):
            found[f"{roof}, microseconds of launch {number}"] = figure(rate["samples_us"])
    for row in (row for part in ("rows", "head", "host") for row in artefact.get(part, [])):
        if "who" in row:
            continue  # below
        at = " ".join(f"{row[key]}" for key in ("kernel", "direction", "dtype") if key in row)
        name = f"{at} {row['rows']}x{row['cols']}" + (" on the host" if "calls" in row else "")
        name += " with a gradient" * row.get("requires_grad", False)
        found[name] = figure(row["samples_us"][row["kernel"]], row["noise_floor"])
        if graphs := row.get("graph_samples_us", {}).get(row["kernel"]):
            found[f"{name}, in a graph"] = figure(graphs, row.get("graph_noise_floor"))
    for row in artefact.get("rows", []):
        # of the loss: who was refused has no time
        if "who" in row and row["samples_us"]:
            name = f"{row['who']} {row['direction']} {row['dtype']} {row['m']}x{row['d']}x{row['v']}"
            found[name] = figure(row["samples_us"][row["who"]], row["noise_floor"])
    for row in artefact.get("tried", []):
        # a configuration that failed has no time
        if row["median_us"] is not None:
            name = f"{artefact['kernel']} {row['config']} {row['dtype']} {row['rows']}x{row['cols']}"
            found[name] = figure(row["samples_us"])
    for mode in artefact.get("timings", []):
        for side in ("eager", "compiled"):
            name = f"{artefact['model']} {tuple(mode['shape'])} {mode['mode']}, {side}"
            found[name] = figure(mode[side]["samples_us"])
    for product in artefact.get("products", []):
        for name, samples in (product["graph_samples_us"] or product["samples_us"]).items():
            at = f"{name} {product['dtype']} {product['rows']}x{product['cols']}"
            found[at] = figure(samples, product["noise_floor"])
    for row in artefact.get("forward", []):
        name = f"{row['rung']} {row['dtype']} {row['batch']}x{row['time']}"
        found[f"{name} on the device"] = figure(row["samples_us"][row["rung"]], row["noise_floor"])
        found[f"{name}, a call"] = figure(row["wall_samples_us"][row["rung"]], row["wall_noise_floor"])
    for row in (row for row in artefact.get("steps", []) if "rung" in row):
        name = f"{row['rung']} {row['batch']}x{row['time']}, a training step"
        found[name] = figure(row["samples_us"][row["rung"]], row["noise_floor"])
    for row in artefact.get("generate", []):
        name = f"{row['rung']}, {row['sequences']} sequences"
        found[f"{name}, a text"] = figure(row["samples_us"][row["rung"]], row["noise_floor"])
        found[f"{name}, its first token"] = figure(row["first_samples_us"][row["rung"]], row["noise_floor"])
    for run in artefact.get("runs", []):
        where = f"{run['pattern']} in {run['dtype']} on {run['ranks']} ranks"
        found[f"{where}, seconds a step"] = figure(run["step_seconds"])
    return found
