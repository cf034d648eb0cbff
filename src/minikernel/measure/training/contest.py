"""A training step on every rung in one process, the rungs taking turns; then the whole training, on several seeds."""

import time
from collections.abc import Callable
from dataclasses import asdict, fields, replace

import numpy as np
import torch

from minikernel.measure.model.clocks import cycles_per_us
from minikernel.measure.model.stamps import blocks_of, longest, tick_ns
from minikernel.measure.noise import DUPLICATE
from minikernel.measure.training import rungs
from minikernel.measure.training.curves import Task, curves
from minikernel.measure.training.figures import bars, excess_percent, fill_in, step_figures
from minikernel.measure.training.names import GRAPH, ONE, OURS, RUNGS
from minikernel.measure.training.rungs import RATE, Step, model_at_start, synchronize
from minikernel.model.train import launch
from minikernel.model.train.tables import AdamW
from minimodel.corpus import TokenStream
from minimodel.model_config import MiniGPTConfig

WATCHED = 5  # trainings, of which one is kept
SETTINGS = tuple(field.name for field in fields(AdamW))


def run_contest(
    params: dict,
    config: MiniGPTConfig,
    text: TokenStream,
    held_out: TokenStream,
    limit_nats: float,
    torch_device: str,
    log: Callable[[str], None],
) -> dict:
    """Time a step at each shape of the schedule on every rung, and the whole schedule.

    Args:
        params: as `minilab.records.params.training_contest` gives them.
        text, held_out: what is trained on, and what the end is judged by.
        limit_nats: the best held-out loss that any model could reach.
        torch_device: `cuda:N`.
        log: called with a line for each thing that is measured.

    Returns:
        `training.json` without its provenance.
    """
    device, began, training = torch.device(torch_device), time.monotonic(), params["training"]
    if device.type == "cuda":
        torch.cuda.set_device(device)  # of which graphs are captured
    settings = AdamW(**{name: training[name] for name in SETTINGS if name in training})
    result: dict = {"config": asdict(config), "limit_nats": limit_nats, "cycles_per_us": cycles_per_us(device)}
    result |= {name: [] for name in ("steps", "timelines", "whole", "curves", "left_out")}
    # the whole trainings first: a limit on time cuts what comes last, and only steps are many
    for seed in params["seeds"]:
        result["whole"].append(row := whole(config, training, settings, text, held_out, limit_nats, seed, device))
        log(in_line(row))
    shapes = dict.fromkeys((phase["batch"], phase["time"]) for phase in training["phases"])
    for batch, length in shapes:
        if time.monotonic() - began > params["time_limit_seconds"]:
            result["left_out"].append({"batch": batch, "time": length, "seconds": params["time_limit_seconds"]})
            continue
        rows = steps_at(batch, length, params, config, settings, text, device)
        result["steps"] += rows
        times = ", ".join(f"{row['rung']} {row['us_per_step']:,.1f}" for row in rows)
        log(f"{time.monotonic() - began:4.0f} s ({batch}, {length}): {times} us a step")
        lines = timelines(batch, length, config, text, device)
        result["timelines"] += fill_in(lines, rows, result["cycles_per_us"])
    if params["curve_seconds"]:
        task = Task(config, training, settings, text, held_out, params["seeds"][0])
        result["curves"] = curves(task, device, params["curve_seconds"], log)
    return {**result, "complete": not result["left_out"], "bars": bars(result["steps"], result["whole"])}


def steps_at(
    batch: int,
    length: int,
    params: dict,
    config: MiniGPTConfig,
    settings: AdamW,
    text: TokenStream,
    device: torch.device,
    compiles: bool = True,
) -> list[dict]:
    """The rows of `steps` at one shape; without `compiles` the graph is eager's."""
    rows = text.rows(text.random_places(np.random.default_rng(0), batch, length))
    ids, targets = (torch.from_numpy(each).to(device) for each in rows)
    ways = rungs.torch_steps(config, ids, targets, settings, compiles)
    model, calm = model_at_start(config, 0, device), replace(settings, learning_rate=RATE, final_learning_rate=RATE)
    samples: dict[str, list[float]] = {name: [] for name in (*ways, *OURS, DUPLICATE)}

    def ours(launches: str, turn: int) -> float:
        many = params["steps"][launches]
        schedule = [(many, batch, length)]
        trained = launch.train(model, text, schedule, optimizer=calm, seed=turn, launches=launches)
        return 1e6 * trained.seconds / many

    for turn in range(params["turns"] + 1):
        taken = {name: microseconds(step, params["steps"][name], device) for name, step in ways.items()}
        taken |= {name: ours(launches, turn) for name, launches in ((GRAPH, GRAPH), (ONE, ONE), (DUPLICATE, ONE))}
        for name, us in taken.items():
            samples[name] += [us] if turn else []  # the first turn compiles and warms up
    return [
        {
            "rung": rung,
            "batch": batch,
            "time": length,
            "in_a_row": params["steps"][rung],
            **step_figures(rung, samples),
            "samples_us": {name: samples[name] for name in (rung, *([DUPLICATE] if rung == ONE else []))},
        }
        for rung in RUNGS
        if rung in samples
    ]


def timelines(batch: int, length: int, config: MiniGPTConfig, text: TokenStream, device: torch.device) -> list[dict]:
    """The rows of `timelines` at one shape, but what follows from them: of several trainings the one in the middle."""
    found = []
    for rung in OURS:
        model = model_at_start(config, 0, device)
        watched = [launch.timeline(model, text, batch, length, launches=rung) for _ in range(WATCHED)]
        blocks = blocks_of(sorted(watched, key=longest)[WATCHED // 2])
        found.append({"rung": rung, "batch": batch, "time": length, "tick_ns": tick_ns(blocks), "blocks": blocks})
    return found


def microseconds(step: Step, steps: int, device: torch.device) -> float:
    """Wall time of a step, many in a row, until the device has done the last."""
    synchronize(device)
    begun = time.perf_counter()
    for _ in range(steps):
        step()
    synchronize(device)
    return 1e6 * (time.perf_counter() - begun) / steps


def whole(
    config: MiniGPTConfig,
    training: dict,
    settings: AdamW,
    text: TokenStream,
    held_out: TokenStream,
    limit_nats: float,
    seed: int,
    device: torch.device,
    operands: str = "float32",
) -> dict:
    """A row of `whole`: the schedule in one launch, from one seed's weights and rows."""
    model = model_at_start(config, seed, device)
    trained = launch.train(
        model, text, training["phases"], optimizer=settings, seed=seed, held_out=held_out,
        evaluate_every=training["evaluate_every"], operands=operands,
    )  # fmt: skip
    tokens = np.cumsum([0, *(p["batch"] * p["time"] for p in training["phases"] for _ in range(p["steps"]))])
    end = trained.held_out[-1][2]
    return {
        "rung": ONE,
        "seed": seed,
        "seconds": trained.seconds,
        "steps": len(trained.losses),
        "tokens": int(tokens[-1]),
        "held_out_nats": end,
        "excess_percent": excess_percent(end, limit_nats),
        "held_out": [
            {"steps": taken, "tokens": int(tokens[taken]), "nats": nats} for taken, _, nats in trained.held_out
        ],
    }


def in_line(row: dict) -> str:
    """One line of the log about one whole training."""
    return (
        f"seed {row['seed']}: {row['seconds']:.3f} s for {row['steps']} steps and {len(row['held_out'])} evaluations; "
        f"held-out loss {row['held_out_nats']:.4f}, {row['excess_percent']:.2f} % above the grammar's entropy"
    )
