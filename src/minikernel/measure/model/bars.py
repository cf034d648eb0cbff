"""What is asked of the model in one kernel, held against what was measured.

A bar is an exact number: a ratio of 5.99 misses 6. Beside each miss stands whether the noise could explain it. What
could not be measured is not met.
"""

from collections.abc import Iterator
from typing import Any

from minikernel.measure.model.names import COMPILE, COMPILED, EAGER, ONE
from minikernel.measure.model.rows import Bar

# keys: (sequences, tokens of each)
TIMES_AS_FAST = {(1, 16): 6.0, (2, 16): 7.0, (64, 64): 3.0, (512, 128): 3.0}  # as the best mode of torch.compile
WALL_AT, WALL_TIMES = (1, 16), 8.0
LOSS_EXCESS = 1e-3  # of bfloat16's loss on held-out text above eager float32's
TOKEN_US, TOKEN_TIMES = 7.0, 10.0  # a token of one sequence, and times as fast as torch.compile with CUDA graphs


def bars(result: dict) -> list[Bar]:
    """Every bar, with our value.

    Args:
        result: `model.json`, or what there is of it.

    Returns:
        `what` is `forward`, `wall`, `contract`, `loss`, `token` or `token_times`. `value` is how many times as fast,
        the microseconds of a token, the excess of a loss, or how much of the contract's tolerance is used.
    """
    at = {(row["batch"], row["time"], row["dtype"], row["rung"]): row for row in result["forward"]}
    shapes = [tuple(shape) for shape in result["shapes"]]
    return [
        *(_speed(at, shape, "device", TIMES_AS_FAST[shape]) for shape in shapes if shape in TIMES_AS_FAST),
        *(_speed(at, WALL_AT, "wall", WALL_TIMES) for shape in shapes if shape == WALL_AT),
        *(_contract(at, shape) for shape in shapes),
        *(_loss(at, shape) for shape in shapes),
        *_writing(result["generate"]),
    ]


def best_compiled(rows: dict, shape: tuple[int, int], dtype: str, clock: str = "device") -> dict | None:
    """The row of torch.compile's fastest mode at a place; None where there is none.

    Args:
        rows: (batch, time, dtype, rung) -> row.
        clock: `device` or `wall`.
    """
    # whichever mode is fastest there: a bar against a slow one would be a bar against nobody
    found = [rows[*shape, dtype, mode] for mode in COMPILED if (*shape, dtype, mode) in rows]
    return min(found, key=lambda row: row[f"{clock}_us"], default=None)


def _speed(rows: dict, shape: tuple[int, int], clock: str, bar: float) -> Bar:
    ours, peer = rows.get((*shape, "float32", ONE)), best_compiled(rows, shape, "float32", clock)
    key = f"{clock}_us"
    value = peer[key] / ours[key] if ours and peer else None
    noise = ours["noise_floor" if clock == "device" else "wall_noise_floor"] if ours else 0.0
    where = _at("forward" if clock == "device" else "wall", shape, "float32")
    timed = {"ours_us": ours and ours[key], "peer": peer and peer["rung"], "peer_us": peer and peer[key]}
    return _at_least({**where, **timed}, value, bar, noise)


def _contract(rows: dict, shape: tuple[int, int]) -> Bar:
    ours = rows.get((*shape, "float32", ONE))
    return _at_most(_at("contract", shape, "float32"), ours["tolerance_used"] if ours else None, 1.0)


def _loss(rows: dict, shape: tuple[int, int]) -> Bar:
    ours, plain = rows.get((*shape, "bfloat16", ONE)), rows.get((*shape, "float32", EAGER))
    losses = [row["loss"] for row in (ours, plain) if row and row["loss"] is not None]
    value = losses[0] / losses[1] - 1 if len(losses) == 2 else None
    return _at_most({**_at("loss", shape, "bfloat16"), "peer": EAGER}, value, LOSS_EXCESS)


def _writing(rows: list[dict]) -> Iterator[Bar]:
    at = {row["rung"]: row for row in rows if row["sequences"] == 1}
    ours, peer = at.get(ONE), at.get(COMPILE)
    us = ours["us_per_token"] if ours else None
    noise = ours["noise_floor"] if ours else 0.0
    # A token's time has a bar of its own, in microseconds, and one against torch.compile with CUDA graphs.
    where: dict = {**_at("token", None, "float32"), "sequences": 1, "ours_us": us}
    yield _at_most(where, us, TOKEN_US, noise)
    theirs = peer["us_per_token"] if peer else None
    value = theirs / us if us and theirs else None
    where |= {"what": "token_times", "peer": COMPILE if theirs else None, "peer_us": theirs}
    yield _at_least(where, value, TOKEN_TIMES, noise)


def _at(what: str, shape: tuple[int, int] | None, dtype: str) -> Any:
    batch, time = shape or (None, None)
    where = {"what": what, "batch": batch, "time": time, "sequences": None, "dtype": dtype}
    return {**where, "ours_us": None, "peer": None, "peer_us": None}


def _at_most(where: dict, value: float | None, bar: float, noise: float = 0.0) -> Any:
    met = value is not None and value <= bar
    # what the noise could explain is said beside the miss, and stays a miss
    explained = value is not None and not met and value <= bar * (1 + noise)
    return {**where, "value": value, "bar": bar, "met": met, "within_noise": explained}


def _at_least(where: dict, value: float | None, bar: float, noise: float) -> Any:
    met = value is not None and value >= bar
    explained = value is not None and not met and value >= bar / (1 + noise)
    return {**where, "value": value, "bar": bar, "met": met, "within_noise": explained}
