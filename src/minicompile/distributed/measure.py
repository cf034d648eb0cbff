"""Measures the patterns, on each number of ranks and in each dtype, against one process: `distributed.json`.

Nothing is recorded of a pattern that computes something else: its losses, step for step, must be the single process's.
"""

import logging
from collections.abc import Callable
from math import prod
from statistics import median

from minicompile.distributed.formulas import PIPELINES, REPLICAS, expected, sent_bytes
from minicompile.distributed.launch import run_ranks
from minicompile.distributed.rows import Job, RankResult, Run
from minilab import LabError
from minilab.device import gpu_names, is_cpu, slug, torch_device, usable_cores
from minimodel.model_config import MiniGPTConfig

log = logging.getLogger("minilab")
PATTERNS = ("ddp", "fsdp", "tp", "fsdp_tp", *PIPELINES)
ROUNDS = 2
Key = tuple[int, str, str]  # ranks, dtype, pattern
SIZES = ("vocab_size", "block_size", "n_layer", "n_head", "n_embd")


def torch_devices(device: str) -> list[str]:
    """List the torch devices of the hardware that a slug names: every GPU of that name, or `["cpu"]`.

    Raises:
        LabError: that hardware is not in this machine.
    """
    first = torch_device(device)
    return [first] if is_cpu(device) else [f"cuda:{i}" for i, name in enumerate(gpu_names()) if slug(name) == device]


def measure(params: dict, devices: list[str]) -> dict:
    """Measure every pattern on every number of ranks that there are devices for.

    Args:
        params: `distributed` of the configuration, for one kind of device: `ranks` (a list), the model's sizes,
            `batch`, `microbatches`, `steps` (of a round), `seed`, `learning_rate`, `loss_rtol` (by dtype; each is
            trained in), `time_limit_seconds`.
        devices: the torch devices that are here; `["cpu"]` serves any number of ranks.

    Returns:
        `distributed.json` without its provenance.

    Raises:
        LabError: the sizes do not divide among the ranks, no number of ranks fits the devices, a rank failed, or a
            pattern's loss is not the single process's.
    """
    on_cpu = devices == ["cpu"]
    sizes = {name: params[name] for name in SIZES}
    fitting = [ranks for ranks in params["ranks"] if on_cpu or ranks <= len(devices)]
    if not fitting:
        raise LabError(
            f"distributed.cuda.ranks asks for {' or '.join(map(str, params['ranks']))} GPUs and {len(devices)} of this "
            "kind is here; run it where there are as many."
        )
    for ranks in fitting:
        check_divides(params, ranks)
    backend = "gloo" if on_cpu else "nccl"
    threads = max(1, usable_cores() // max(fitting))  # of a rank, and of the single process: a rank is a device

    def launch(ranks: int, runs: list[tuple[str, str]]) -> list[list[RankResult]]:
        return run_ranks(
            Job(
                runs=runs,
                devices=["cpu"] * ranks if on_cpu else devices[:ranks],
                sizes=sizes,
                seed=params["seed"],
                learning_rate=params["learning_rate"],
                batch=params["batch"],
                microbatches=params["microbatches"],
                steps=params["steps"],
                backend=backend,
                threads=threads,
                time_limit_seconds=params["time_limit_seconds"],
            )
        )

    runs = _compared(_in_rounds(launch, fitting, list(params["loss_rtol"])), params)
    parameters = sum(prod(shape) for shape in MiniGPTConfig(**sizes).shapes.values())
    return {
        "backend": backend,
        "memory_from": "live_tensors" if on_cpu else "cuda_allocator",
        "threads": threads,
        "model": {**sizes, "parameters": parameters},
        "batch": params["batch"],
        "microbatches": params["microbatches"],
        "loss_rtol": params["loss_rtol"],
        "runs": runs,
        "left_out": [
            {"code": "too_few_gpus", "ranks": ranks, "here": len(devices)}
            for ranks in params["ranks"]
            if ranks not in fitting
        ],
    }


def _in_rounds(launch: Callable, fitting: list[int], dtypes: list[str]) -> dict[Key, list[RankResult]]:
    """Train every pattern in every round; the second goes backwards, so that a drift shows as noise.

    A round has processes of its own, one process alone among them. What its two rounds differ by is a pattern's noise.
    """
    found: dict[Key, list[RankResult]] = {}
    for number in range(ROUNDS):
        forward = slice(None, None, -1 if number % 2 else 1)
        for ranks in [1, *fitting][forward]:
            patterns = patterns_on(ranks)
            runs = [(pattern, dtype) for pattern in patterns for dtype in dtypes][forward]
            log.info("round %d of %d: %s on %d ranks", number + 1, ROUNDS, ", ".join(patterns), ranks)
            for (pattern, dtype), results in zip(runs, launch(ranks, runs), strict=True):
                key = (ranks, dtype, pattern)
                found[key] = _joined(found[key], results) if key in found else results
    order = [(ranks, dtype, pattern) for ranks in [1, *fitting] for dtype in dtypes for pattern in patterns_on(ranks)]
    return {key: found[key] for key in order}


def patterns_on(ranks: int) -> list[str]:
    """List what is measured on so many ranks: the mesh of two patterns needs two ranks for each."""
    if ranks == 1:
        return ["single"]
    meshes = ranks % REPLICAS == 0 and ranks > REPLICAS
    return [pattern for pattern in PATTERNS if pattern != "fsdp_tp" or meshes]


def _joined(before: list[RankResult], after: list[RankResult]) -> list[RankResult]:
    """Join what each rank saw in two rounds; collectives and memory are those of the first."""
    return [
        {
            **one,
            "losses": one["losses"] + other["losses"],
            "step_seconds": one["step_seconds"] + other["step_seconds"],
            "busy_seconds": one["busy_seconds"] + other["busy_seconds"],
            "alone_seconds": one["alone_seconds"] + other["alone_seconds"],
        }
        for one, other in zip(before, after, strict=True)
    ]


def _compared(found: dict[Key, list[RankResult]], params: dict) -> list[Run]:
    """Sum every run up, and hold the losses of each pattern against those of one process in the same dtype."""
    runs: dict[Key, Run] = {}
    for key, results in found.items():
        ranks, dtype, pattern = key
        run = runs[key] = summary(pattern, results, params, dtype)
        if pattern == "single":
            continue
        alone = runs[1, dtype, "single"]
        run["loss_max_rel_difference"] = loss_difference(run, alone, params["loss_rtol"][dtype])
        speed_up = run["tokens_per_s"] / alone["tokens_per_s"]
        log.info(
            "%s in %s on %d ranks: %.0f tokens/s, %.2f times one process's; its loss is within %.1e of that one's",
            *(pattern, dtype, ranks, run["tokens_per_s"], speed_up, run["loss_max_rel_difference"]),
        )
    return list(runs.values())


def check_divides(params: dict, ranks: int) -> None:
    """Refuse sizes that cannot be dealt out to `ranks`.

    Raises:
        LabError: one sentence about the first that cannot.
    """
    divided = {"batch": "sequences", "n_head": "heads", "vocab_size": "words"}
    for name, things in divided.items():
        if params[name] % ranks:
            raise LabError(
                f"distributed: {params[name]} {things} ({name}) do not divide among {ranks} ranks; write a multiple."
            )
    if params["batch"] % params["microbatches"] or params["microbatches"] < ranks:
        raise LabError(
            f"distributed: microbatches is {params['microbatches']}; write a number that divides the batch of "
            f"{params['batch']} and is at least {ranks}, so that every rank of the pipeline has work."
        )
    if params["microbatches"] % (params["microbatches"] // ranks):
        raise LabError(
            f"distributed: microbatches is {params['microbatches']}, which the interleaved schedules of {ranks} ranks "
            f"cannot deal out in {params['microbatches'] // ranks} equal rounds; write a multiple of {ranks}."
        )
    stages = ranks * max(PIPELINES.values())
    if params["n_layer"] < stages:
        raise LabError(
            f"distributed: a model of {params['n_layer']} blocks cannot be cut into the {stages} stages that some "
            f"schedules of a pipeline of {ranks} ranks have; write an n_layer of at least {stages}."
        )


def summary(pattern: str, results: list[RankResult], params: dict, dtype: str = "float32") -> Run:
    """Sum up one run of one pattern, over all of its ranks.

    A step takes as long as its slowest rank. The loss of a step is the mean over the ranks that know one.
    """
    ranks = len(results)
    by_rank = [result["step_seconds"] for result in results]
    slowest = slowest_steps(by_rank)
    tokens = params["batch"] * params["block_size"]
    sizes = {name: params[name] for name in SIZES}
    batch, microbatches = params["batch"], params["microbatches"]
    formulas = [expected(pattern, sizes, batch, microbatches, ranks, rank, dtype) for rank in range(ranks)]
    counted = [result["collectives"] for result in results]
    run: Run = {
        "pattern": pattern,
        "dtype": dtype,
        "ranks": ranks,
        "tokens_per_s": speed(tokens, slowest),
        "step_seconds": slowest,
        "step_seconds_by_rank": by_rank,
        "peak_memory_bytes": [result["peak_memory_bytes"] for result in results],
        "collectives": counted,
        "formula": formulas,
        "matches_formula": counted == formulas,
        "sent_bytes": [sent_bytes(counts, ranks, pattern) for counts in counted],
        "losses": [_mean_known(step) for step in zip(*(result["losses"] for result in results), strict=True)],
    }
    if alone := results[0]["alone_seconds"]:
        run["alone_seconds"] = alone
    if pattern in PIPELINES:
        run["busy_seconds_by_rank"] = [result["busy_seconds"] for result in results]
    return run


def slowest_steps(step_seconds_by_rank: list[list[float]]) -> list[float]:
    """Take the seconds of each step on its slowest rank."""
    return [max(step) for step in zip(*step_seconds_by_rank, strict=True)]


def speed(tokens: int, step_seconds: list[float]) -> float:
    """Compute the tokens a second at the median step."""
    return tokens / median(step_seconds)


def loss_difference(found: Run, alone: Run, rtol: float) -> float:
    """Find the largest relative difference of a step's loss from the single process's.

    Raises:
        LabError: it is above `rtol`.
    """
    steps = list(zip(found["losses"], alone["losses"], strict=True))
    differences = [abs(loss - reference) / abs(reference) for loss, reference in steps]
    worst = max(range(len(steps)), key=differences.__getitem__)
    if not differences[worst] <= rtol:
        raise LabError(
            f"{found['pattern']} in {found['dtype']} on {found['ranks']} ranks has a loss of {steps[worst][0]:.7g} in "
            f"step {worst} where one process has {steps[worst][1]:.7g}, a relative difference of "
            f"{differences[worst]:.1e} and above the {rtol:g} of distributed.loss_rtol; it does not train the same "
            "model."
        )
    return differences[worst]


def _mean_known(losses: tuple[float | None, ...]) -> float:
    known = [loss for loss in losses if loss is not None]
    return sum(known) / len(known)
