"""Every rung of the whole model in one process, beside one another: forward passes, whole texts, where the time goes.

At each place (a shape and a dtype) the rungs take turns. A rung that is refused, is wrong, or whose compile would come
too late is left out there, and the reason is kept.
"""

import time
from collections.abc import Callable
from dataclasses import asdict
from itertools import product

import torch

from minikernel.measure.model import rungs
from minikernel.measure.model.apart import take_apart
from minikernel.measure.model.bars import bars
from minikernel.measure.model.clocks import Side, captured, clock, cycles_per_us
from minikernel.measure.model.figures import median
from minikernel.measure.model.names import MAX_AUTOTUNE
from minikernel.measure.model.place import Timed, time_place
from minikernel.measure.model.rows import Place
from minikernel.measure.model.writers import time_writers, writers
from minikernel.ops import softmax_cuda
from minikernel.reasons import in_words
from minimodel.corpus import TokenStream
from minimodel.torch_minigpt import GrammarMiniGPT

LEFT_OUT_ALL = "all"
EMPTY = "empty.cu"


def run_contest(
    params: dict, model: GrammarMiniGPT, text: TokenStream, torch_device: str, log: Callable[[str], None]
) -> dict:
    """Time the whole model on every rung.

    Args:
        params: as `minilab.records.params.model_contest` gives them.
        model: with the trained weights, float32.
        text: held-out, for the losses.
        torch_device: `cuda:N`; on a CPU both clocks are the wall's, and nothing is taken apart.
        log: called with a line for each thing that is measured.

    Returns:
        `model.json` without its provenance.
    """
    device, began, limit = torch.device(torch_device), time.monotonic(), params["time_limit_seconds"]

    def say(line: str) -> None:
        log(f"{time.monotonic() - began:4.0f} s {line}")

    rungs.use_one_assembler()
    rate = cycles_per_us(device)
    # inference: no gradient is asked of anything here
    model = model.to(device).eval().requires_grad_(False)
    result: dict = {
        "config": asdict(model.config),
        "contract": params["contract"],
        "shapes": params["shapes"],
        "cycles_per_us": rate,
        **_empty(params, rate),
        **{name: [] for name in ("forward", "generate", "timelines", "left_out", "bars")},
    }
    compiling = {MAX_AUTOTUNE: params["max_autotune_seconds"]}
    timed: list[Timed] = []

    def pass_forward(dtype: str, batch: int, length: int) -> None:
        place: Place = {"batch": batch, "time": length, "dtype": dtype}
        # a place that comes too late is said to be left out, so that a gap never looks like a choice
        if time.monotonic() - began > limit:
            late = {"rung": LEFT_OUT_ALL, "reason": {"code": "time_over", "seconds": limit}}
            result["left_out"].append({**place, **late})
            return
        timed.append(one := time_place(place, params, model, text, rate, compiling))
        result["forward"] += one.rows.values()
        result["left_out"] += [{**place, "rung": rung, "reason": why} for rung, why in one.reasons.items()]
        say(in_line(one))

    first, *others = params["dtypes"]  # whole texts between them: a limit on time cuts what comes last
    with torch.no_grad():
        for batch, length in params["shapes"]:
            pass_forward(first, batch, length)
        for sequences in params["generate"]["sequences"]:
            say(_write(params, model, sequences, result))
        for dtype, (batch, length) in product(others, params["shapes"]):
            pass_forward(dtype, batch, length)
        # Last of all, so that nothing is timed in a process in which a profiler has run.
        for one in timed if rate else ():
            take_apart(one, result, params["timelines"])
        say(f"taken apart: {len(result['timelines'])} timelines")
    result["complete"] = all(out["rung"] != LEFT_OUT_ALL for out in result["left_out"])
    result["bars"] = bars(result)
    return result


def _empty(params: dict, rate: float) -> dict:
    """What an empty kernel in a CUDA graph takes from event to event; nothing on a CPU."""
    if not rate:
        return {"empty_us": 0.0, "empty_samples_us": []}
    device = torch.cuda.current_device()
    kernel = softmax_cuda.compiled(f"../measure/model/{EMPTY}", "nothing", device)

    def launch() -> None:
        kernel((1,), (32,), (), stream=softmax_cuda.stream_of(torch._C._cuda_getCurrentRawStream(device)))

    # What a graph costs with nothing in it: on an H200 3.55 us from event to event, the floor of every other rung.
    samples = clock({"": Side(launch, captured(launch), True)}, params["launches"], params["warmup"], rate)[
        ""
    ].device_us
    return {"empty_us": median(samples), "empty_samples_us": samples}


def _write(params: dict, model: GrammarMiniGPT, sequences: int, result: dict) -> str:
    """Time the writers of some sequences side by side, and say so in a line."""
    given, new_tokens, texts = (params["generate"][name] for name in ("given", "new_tokens", "texts"))
    device = model.lm_head.weight.device
    generator = torch.Generator(device).manual_seed(params["seed"])
    # random prompts: how long a token takes does not depend on what it says
    prompt = torch.randint(0, model.config.vocab_size, (sequences, given), generator=generator, device=device)
    rows, reasons = time_writers(writers(model, sequences, given + new_tokens), prompt, new_tokens, texts)
    result["generate"] += rows
    where = {"sequences": sequences, "dtype": "float32"}
    result["left_out"] += [{**where, "rung": rung, "reason": why} for rung, why in reasons.items()]
    times = ", ".join(f"{row['rung']} {row['us_per_token']:,.2f} ({row['first_token_us']:,.0f})" for row in rows)
    without = "".join(f"; without {rung}: {in_words(why)}" for rung, why in reasons.items())
    return f"{sequences} sequences: {times or 'nothing'} us a token (the first){without}"


def in_line(one: Timed) -> str:
    """One line of the log about one place: every rung's time, and who was left out."""
    where = f"({one.place['batch']}, {one.place['time']}) {one.place['dtype']}"
    times = ", ".join(f"{rung} {row['device_us']:,.1f} ({row['wall_us']:,.1f})" for rung, row in one.rows.items())
    without = "".join(f"; without {rung}: {in_words(why)}" for rung, why in one.reasons.items())
    return f"{where}: {times or 'nothing'} us on the device (wall){without}"
