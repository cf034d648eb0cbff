"""What the safety net of `maybe_compile` costs: `python benchmarks/maybe_compile.py`.

A call: the module that comes back against a bare `torch.compile(module)` and a bare `module.compile()`, same graph,
taking turns in one process. Target: at most 1 microsecond or 2 % more than the faster, whichever is larger. The
start-up: `maybe_compile` with its smoketest against a bare `torch.compile` and its first training step, of a small and
of a larger model, each start in a process of its own that has computed nothing before, as in a training script. Target:
at most four eager steps more, in processor time and on the clock. From warm caches on disk, where the compile is
cheapest and the net weighs most. One thread; a call needs a quiet machine, the start-ups take turns.
"""

import argparse
import logging
import resource
import statistics
import sys
import time

CALL_TARGET_US, CALL_TARGET_RATIO, STEP_TARGET = 1.0, 0.02, 4
MODELS = {"small": {}, "larger": {"n_layer": 6, "n_head": 8, "n_embd": 256}}


def microseconds_a_call(module, batch, calls: int) -> float:
    started = time.perf_counter()
    for _ in range(calls):
        module(batch)
    return 1e6 * (time.perf_counter() - started) / calls


def call_overhead(options: dict, turns: int, calls: int) -> bool:
    """Print both sides' medians; whether the target is met."""
    import torch
    from torch import Tensor, nn

    from minicompile import CompileConfig, compile_report, maybe_compile

    class Head(nn.Module):
        """A forward of its own: of torch.nn's modules `module.compile()` would compile nothing."""

        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 8)

        def forward(self, x: Tensor) -> Tensor:
            return self.linear(x).softmax(-1)

    with torch.no_grad():
        batch = torch.randn(8, 8)
        bare = torch.compile(Head().eval(), options=options)
        ours = Head().eval()
        bare(batch)
        maybe_compile(ours, CompileConfig(enabled=True, options=options), logging.getLogger(), batch)
        in_place = Head().eval()
        in_place.compile(options=options)
        in_place(batch)
        sides = {"torch.compile": bare, "module.compile": in_place, "maybe_compile": ours}
        if not compile_report(ours).compiled:
            sys.exit("the model was not compiled: there is nothing to measure.")
        times = {name: [] for name in sides}
        for _ in range(turns):
            for name, module in sides.items():
                times[name].append(microseconds_a_call(module, batch, calls))
    medians = {name: statistics.median(values) for name, values in times.items()}
    for name, values in times.items():
        low, *_, high = statistics.quantiles(values, n=5)
        print(f"{name:14s} {medians[name]:7.2f} us a call   (20 to 80 %: {low:.2f} to {high:.2f})")
    fastest = min(medians["torch.compile"], medians["module.compile"])
    overhead = medians["maybe_compile"] - fastest
    target = max(CALL_TARGET_US, CALL_TARGET_RATIO * fastest)
    print(f"overhead       {overhead:+7.2f} us a call   (target: at most {target:.2f})")
    return overhead <= target


def start_up(name: str, sizes: dict, options: dict, turns: int) -> bool:
    """Print what starting up a model costs with and without the smoketest; whether the target is met."""
    import torch

    from minicompile import CompileConfig, maybe_compile
    from minicompile.safe.smoketest.apart import call_apart
    from minicompile.state.batches import own_loss
    from minimodel import GrammarMiniGPT, MiniGPTConfig

    def new() -> tuple:
        torch.manual_seed(0)
        model = GrammarMiniGPT(MiniGPTConfig(vocab_size=600, block_size=128, **sizes))
        return model, torch.optim.AdamW(model.parameters()), torch.randint(0, 600, (64, 64))

    def step(model, optimizer, batch) -> None:
        own_loss(model(batch)).backward()
        optimizer.step()
        optimizer.zero_grad()

    def eager() -> list[tuple[float, float]]:
        made = new()
        step(*made)
        return [timed(lambda: step(*made)) for _ in range(5)]

    def bare() -> list[tuple[float, float]]:
        model, *rest = new()
        compiled = torch.compile(model, options=options)
        return [timed(lambda: step(compiled, *rest))]

    def ours() -> list[tuple[float, float]]:
        model, optimizer, batch = new()
        cfg = CompileConfig(enabled=True, options=options, fail_policy="raise")
        tried = timed(lambda: maybe_compile(model, cfg, logging.getLogger(), batch, optimizer=optimizer))
        return [tried, timed(lambda: step(model, optimizer, batch))]

    sides = {"eager": eager, "bare": bare, "ours": ours}
    seconds = {side: [] for side in sides}
    for turn in range(turns + 1):
        for side, start in sides.items():
            found = call_apart(lambda _, start=start: start())
            if turn:  # the first warms the caches
                seconds[side] += [found] if side == "ours" else found
    tried, first = zip(*seconds["ours"], strict=True)
    print(f"{name}: {sum(p.numel() for p in new()[0].parameters()):,} parameters")
    met = True
    for number, kind in enumerate(("processor", "clock")):
        step_s, bare_s, ours_s, first_s = (
            statistics.median(pair[number] for pair in pairs)
            for pairs in (seconds["eager"], seconds["bare"], tried, first)
        )
        extra = (ours_s - bare_s) / step_s
        met &= extra <= STEP_TARGET
        print(
            f"  by the {kind}: a bare compile and first step {bare_s:.3f} s, maybe_compile {ours_s:.3f} s, the first "
            f"step after it {first_s:.3f} s, an eager step {step_s:.4f} s"
        )
        print(f"  the smoketest costs {extra:+.2f} eager steps beyond the compile (target: at most {STEP_TARGET})")
    return met


def timed(function) -> tuple[float, float]:
    """Call a function; processor seconds, those of ended children among them, and seconds on the clock."""

    def processor_seconds() -> float:
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return sum(one.ru_utime + one.ru_stime for one in used)

    before, started = processor_seconds(), time.perf_counter()
    function()
    return processor_seconds() - before, time.perf_counter() - started


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=60, help="turns of each side, calls")
    parser.add_argument("--calls", type=int, default=2000, help="calls a turn")
    parser.add_argument("--starts", type=int, default=5, help="starts of each side")
    arguments = parser.parse_args()
    import torch

    torch.set_num_threads(1)  # a second thread stalls on busy cores
    options = {"cpp.vec_isa_ok": True, "cpp.simdlen": 256}
    met = [call_overhead(options, arguments.turns, arguments.calls)]
    met += [start_up(name, sizes, options, arguments.starts) for name, sizes in MODELS.items()]
    return int(not all(met))


if __name__ == "__main__":
    sys.exit(main())
