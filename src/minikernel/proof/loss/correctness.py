"""Hold every contender against float64 on every case: right, wrong, refused or absent, and by how much."""

import math
import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from minikernel.proof.loss.cases import Case, Made, cases, made
from minikernel.proof.loss.contenders import COMPILE, CONTENDERS, Contender, Function, function_of, versions
from minikernel.proof.loss.exact import LAMBDA, RMS, UNIT, Exact, exact, judged
from minikernel.reasons import of_exception

ALONE = {"states_alone": ("dh", 0), "weight_alone": ("dw", 1)}  # how a case is done: whose gradient alone is asked for
RIGHT, WRONG, REFUSED, ABSENT = "right", "wrong", "refused", "absent"


def loss_correctness(params: dict, device: str, log: Callable[[str], None], processes: int = 1) -> dict:
    """Every contender through every case.

    Args:
        params: `seed`, and `compile_seconds` that torch.compile has in each process.
        device: torch device.
        log: called with a line for each case.
        processes: that share the cases: most of the time is compilers'.

    Returns:
        `loss_correctness.json` without its provenance.
    """
    parts = [partial(_verdicts, case, it, params["seed"], device) for case in cases(device) for it in case.dtypes]
    rows: list[dict] = []

    def tell(found: list[dict]) -> None:
        rows.extend(found)
        log(f"{found[0]['case']} {found[0]['dtype']}: " + ", ".join(f"{row['who']} {row['verdict']}" for row in found))

    begin = partial(_begin, float(params["compile_seconds"]))
    if processes == 1:
        begin()
        for part in parts:
            tell(part())
    else:
        # a process that has opened a GPU cannot be forked
        with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), begin) as pool:
            for waiting in [pool.submit(part) for part in parts]:
                tell(waiting.result())
    return {"cases": rows, "versions": versions(), "seed": params["seed"]}


def _begin(seconds: float) -> None:
    compiled: Any = function_of(COMPILE)
    compiled.seconds = seconds


def _verdicts(case: Case, dtype: str, seed: int, device: str) -> list[dict]:
    """Everybody on one case."""
    tensors = made(case, dtype, device, seed)
    right = expected(case, tensors)
    return [
        {"who": who, **about(case, dtype), **verdict(one, case, tensors, right, device)}
        for who, one in CONTENDERS.items()
    ]


def about(case: Case, dtype: str) -> dict:
    """The keys that say which case a row is of."""
    return {"case": case.code, "dtype": dtype, "m": case.m, "d": case.d, "v": case.v}


def verdict(contender: Contender, case: Case, tensors: Made, right: Exact, device: str) -> dict:
    """One contender on one case.

    Returns:
        `verdict`; of what was computed, `of` (`loss`, `dh` or `dw`: the one that is worst beside what is allowed),
        `error` and `allowed`, relative; of what was not, the `reason`.
    """
    nothing: dict = {"of": None, "error": None, "allowed": None}
    if contender.version is None:
        return {"verdict": ABSENT, **nothing, "reason": {"code": "not_installed", "package": contender.distribution}}
    try:
        contender.refuse_unless_able(device, {name: it for name, it in tensors.options.items() if name != "ids"})
        results = run(function_of(contender.name), case, tensors)
        if torch.device(device).type == "cuda":
            torch.cuda.synchronize()
    except Exception as failure:  # somebody else's code may fail in any way
        return {"verdict": REFUSED, **nothing, "reason": of_exception(failure)}
    return {**worst(results, right), "reason": None}


def worst(results: dict[str, Tensor], right: Exact) -> dict:
    """Judge each result, and keep the one that is worst beside what is allowed."""
    errors = {name: judged(result, right.values[name], right.bounds[name]) for name, result in results.items()}
    name = max(errors, key=lambda name: over(*errors[name]))
    error, allowed = errors[name]
    found = {"of": name, "error": error if math.isfinite(error) else None, "allowed": allowed}
    return {"verdict": RIGHT if error <= allowed else WRONG, **found}


def over(error: float, allowed: float) -> float:
    """How many times what is allowed an error is."""
    return 0.0 if error == 0 else error / allowed if allowed else math.inf


def run(function: Function, case: Case, tensors: Made) -> dict[str, Tensor]:
    """The loss and its gradients as a contender computes them."""
    target, options = tensors.target, {name: it for name, it in tensors.options.items() if name != "ids"}
    weight_leaf = tensors.weight.T.contiguous() if case.how == "transposed" else tensors.weight.clone()
    weight_leaf.requires_grad_(True)
    weight = weight_leaf.T if case.how == "transposed" else weight_leaf
    if case.how == "tied":
        loss = function(F.embedding(tensors.options["ids"], weight), weight, target, **options)
        return {"loss": loss.detach(), "dw": torch.autograd.grad(loss, weight_leaf)[0]}
    h_leaf = torch.repeat_interleave(tensors.h, 2, -1) if case.how == "strided" else tensors.h.clone()
    h_leaf.requires_grad_(case.how not in ("weight_alone", "forward"))
    weight_leaf.requires_grad_(case.how not in ("states_alone", "forward"))
    h = h_leaf[:, ::2] if case.how == "strided" else h_leaf
    if case.how == "parts":
        return _in_parts(function, h_leaf, weight_leaf, target, options)
    loss = function(h, weight, target, **options)
    if case.how == "forward":
        return {"loss": loss.detach()}
    leaves, upstream = (h_leaf, weight_leaf), tensors.upstream
    if upstream is not None:
        upstream = upstream.to(loss.dtype)
    if case.how == "twice":
        torch.autograd.grad(loss, leaves, upstream, retain_graph=True)
    if case.how in ALONE:
        name, place = ALONE[case.how]
        return {"loss": loss.detach(), name: torch.autograd.grad(loss, leaves[place], upstream)[0]}
    dh, dw = torch.autograd.grad(loss, leaves, upstream)
    dh = dh[:, ::2] if case.how == "strided" else dh
    return {"loss": loss.detach(), "dh": dh, "dw": dw.T if case.how == "transposed" else dw}


def _in_parts(function: Function, h: Tensor, weight: Tensor, target: Tensor, options: dict[str, Any]) -> dict:
    half, losses = len(h) // 2, []
    for rows in (slice(0, half), slice(half, None)):
        loss = function(h[rows], weight, target[rows], **options)
        loss.backward()
        losses.append(loss.detach().double())
    assert h.grad is not None
    assert weight.grad is not None
    return {"loss": torch.stack(losses).sum(), "dh": h.grad, "dw": weight.grad}


def expected(case: Case, tensors: Made) -> Exact:
    """What is right on a case, with what its own way of calling adds to the bounds: roundings that autograd makes."""
    options = {name: it for name, it in tensors.options.items() if name != "ids"}
    h, upstream = tensors.h, tensors.upstream
    right = exact(h, tensors.weight, tensors.target, upstream, **options)
    unit = LAMBDA * RMS * UNIT[tensors.weight.dtype]
    if case.how == "parts":
        # two gradients are rounded, and their sum again; each may be larger than the sum
        halves = [slice(0, len(h) // 2), slice(len(h) // 2, None)]
        ones = [exact(h[rows], tensors.weight, tensors.target[rows], **options) for rows in halves]
        right.bounds["dw"] = sum(one.bounds["dw"] for one in ones) + unit * right.values["dw"].abs()
        right.bounds["loss"] = sum((one.bounds["loss"] for one in ones), torch.zeros_like(right.bounds["loss"]))
    elif case.how == "tied":
        ids = tensors.options["ids"]
        dw, bound = right.values["dw"], right.bounds["dw"]
        right.values["dw"] = dw.index_add(0, ids, right.values["dh"])
        right.bounds["dw"] = bound.index_add(0, ids, right.bounds["dh"]) + unit * right.values["dw"].abs()
    return right
