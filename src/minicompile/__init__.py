"""Compile safely, see what the compiler made, and keep shapes from making it work again.

It knows what torch.compile makes of a model, and whether that is right and fast. It knows a kernel of the lab's only as
something that a model calls.

from minicompile import maybe_compile, CompileConfig

maybe_compile(model, cfg, logger, sample_batch)   compile and prove, or stay eager and say why
compile_report(model), health(model, cfg, batch)  what became of it, for people and for JSON
uncompile(model)                                  eager again
CompileSmoketest(steps).run(model, batch, ...)    training steps held against eager
ShapeStabilizer(buckets)                          sequences padded to a few lengths
benchmark(model, cfg, batch)                      eager and compiled, timed in one run
capture(model, args), annotate(capture), render_explorer(capture, path)   the lowering, line by line
what_if(model, args, knob)                        both sides of one knob of the compiler's, counted and timed
with explore(folder) as seen: ...                 the same of whatever a block of code compiles
"""

import importlib

# Imported when they are asked for, and named by strings: a job that uses one part does not depend on the others.
HOMES = {
    "BucketConfig": "minicompile.safe.compile_config",
    "CompileConfig": "minicompile.safe.compile_config",
    "CompileReport": "minicompile.safe.compile_record",
    "CompileSmoketest": "minicompile.safe.smoketest.smoketest",
    "ShapeStabilizer": "minicompile.safe.shape_stabilizer",
    "annotate": "minicompile.explain.annotation.annotate",
    "benchmark": "minicompile.safe.compile_benchmark",
    "capture": "minicompile.notebook",
    "compile_report": "minicompile.safe.compile_record",
    "explore": "minicompile.exploring",
    "health": "minicompile.safe.compile_health",
    "maybe_compile": "minicompile.safe.safe_compile",
    "render_explorer": "minicompile.notebook",
    "uncompile": "minicompile.safe.safe_compile",
    "what_if": "minicompile.notebook",
}

__all__ = sorted(HOMES)


def __getattr__(name: str):
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(HOMES[name]), name)
    return value
