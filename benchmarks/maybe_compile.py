"""What the safety net of `maybe_compile` costs: `python benchmarks/maybe_compile.py`.

A call: the module that comes back against a bare `torch.compile(module)` and a bare `module.compile()`, same graph,
taking turns in one process. Target: at most 1 microsecond or 2 % more than the faster, whichever is larger. The
start-up: `maybe_compile` with its smoketest against a bare `torch.compile` and its first training step. Target: at
most four eager steps more. Both from warm caches on disk, where the compile is cheapest and the net weighs most. One
thread; a quiet machine is needed.
"""

import argparse
import copy
import logging
import statistics
import sys
import time

CALL_TARGET_US, CALL_TARGET_RATIO, STEP_TARGET = 1.0, 0.02, 4


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


def start_up(options: dict, turns: int) -> bool:
    """Print what starting up costs with and without the smoketest; whether the target is met."""
    import torch

    from minicompile import CompileConfig, maybe_compile
    from minicompile.batches import own_loss
    from minimodel import GrammarMiniGPT, MiniGPTConfig

    torch.manual_seed(0)
    original = GrammarMiniGPT(MiniGPTConfig(vocab_size=600, block_size=128))
    batch = torch.randint(0, 600, (64, 64))

    def step(model, optimizer) -> float:
        started = time.perf_counter()
        own_loss(model(batch)).backward()
        optimizer.step()
        optimizer.zero_grad()
        return time.perf_counter() - started

    def optimizer_of(model):
        return torch.optim.AdamW(model.parameters())

    eager_model = copy.deepcopy(original)
    eager_optimizer = optimizer_of(eager_model)
    eager = statistics.median(step(eager_model, eager_optimizer) for _ in range(10))
    seconds = {"bare": [], "ours": [], "first call": []}
    for turn in range(turns + 1):
        for name in ("bare", "ours"):
            torch.compiler.reset()
            model = copy.deepcopy(original)
            optimizer = optimizer_of(model)
            started = time.perf_counter()
            if name == "bare":
                step(torch.compile(model, options=options), optimizer)
            else:
                cfg = CompileConfig(enabled=True, options=options, fail_policy="raise")
                maybe_compile(model, cfg, logging.getLogger(), batch, optimizer=optimizer)
            if turn:  # the first warms the caches
                seconds[name].append(time.perf_counter() - started)
            if name == "ours":
                first = step(model, optimizer)
                if turn:
                    seconds["first call"].append(first)
    bare, ours, first = (statistics.median(values) for values in seconds.values())
    extra = (ours - bare) / eager
    print(f"bare compile and first step {bare:6.3f} s, maybe_compile {ours:6.3f} s, an eager step {eager:.4f} s")
    print(f"the first step after maybe_compile, which compiles again, from the caches: {first:6.3f} s")
    print(f"the smoketest costs {extra:+.2f} eager steps beyond the compile (target: at most {STEP_TARGET})")
    return extra <= STEP_TARGET


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=60, help="turns of each side, calls")
    parser.add_argument("--calls", type=int, default=2000, help="calls a turn")
    parser.add_argument("--starts", type=int, default=5, help="starts of each side")
    arguments = parser.parse_args()
    import torch

    torch.set_num_threads(1)  # a second thread stalls on busy cores
    options = {"cpp.vec_isa_ok": True, "cpp.simdlen": 256}
    met = [call_overhead(options, arguments.turns, arguments.calls), start_up(options, arguments.starts)]
    return int(not all(met))


if __name__ == "__main__":
    sys.exit(main())
