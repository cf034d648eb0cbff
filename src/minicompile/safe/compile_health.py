"""Checks one model's compile: whether it works, whether it computes what eager does, and what it costs."""

import logging
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import torch
from torch import nn

from minicompile.safe.compile_benchmark import benchmark
from minicompile.safe.compile_config import CompileConfig
from minilab.records.provenance import versions


def health(
    model: nn.Module,
    cfg: CompileConfig,
    batch: Any,
    *,
    loss_fn: Callable | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    steps: int = 30,
    logger: logging.Logger | None = None,
) -> dict:
    """Compile, prove and time `model`, and leave it as it was. Arguments as `minicompile.benchmark`'s.

    Returns:
        Plain data for JSON: `healthy` (compiled, without graph breaks, cache limits or recompiles in the steady
        state), `complaints` (empty when healthy; each a `code`, `not_compiled`, `graph_break`, `cache_limit` or
        `recompile`, with its fields), `config`, `benchmark` (with its `report`) and `versions`.

    Raises:
        LabError: the configuration or a pattern of it cannot be.
    """
    measured = benchmark(model, cfg, batch, loss_fn=loss_fn, optimizer=optimizer, steps=steps, logger=logger)
    report = measured.report
    complaints: list[dict] = []
    if not report.compiled:
        complaints.append({"code": "not_compiled", "stage": report.stage, "failure": report.failure})
    complaints += [{"code": "graph_break", "reason": reason} for reason in report.graph_breaks]
    complaints += [{"code": "cache_limit", **asdict(limit)} for limit in report.cache_limits]
    if measured.recompiles:
        steady = report.recompiles[-measured.recompiles :]
        complaints += [{"code": "recompile", "guard": guard} for guard in steady]
    config = {**cfg.to_dict(), "backend": report.backend}
    return {
        "healthy": not complaints,
        "complaints": complaints,
        "config": config,
        "benchmark": measured.to_dict(),
        "versions": versions(),
    }
