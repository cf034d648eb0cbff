"""Artefacts of stage 25 in which all happens that its reports can tell of: stale, refused, failed, compared."""

from itertools import accumulate

PROVENANCE = {"device": "cpu-x", "date": "2026-11-21T00:00:00+00:00", "hardware": {"cpu": "Some Chip", "gpu": None}}
RESTORED = {
    "from": "a/record.json",
    "stale": True,
    "reasons": [{"code": "source_changed", "path": "src/a.py"}, {"code": "parameter_changed", "name": "b"}],
}


def training(compiled: bool = True, speedup: float = 2.0) -> dict:
    """A `training.json`, as much of it as is told and drawn; the second half of its run is faster by `speedup`."""
    losses = [6.0, 4.0, 3.0, 2.5]

    def side(first: float, rate: float) -> dict:
        seconds = list(accumulate([first, *[100 / rate] * 3]))
        return {
            "first_step_seconds": first,
            "tokens_per_second": rate,
            "losses": losses,
            "seconds": seconds,
            "held_out_cross_entropy": 2.4,
        }

    return {
        "steps": [1, 2, 3, 4],
        "tokens": [100, 200, 300, 400],
        "eager": side(0.1, 1000.0),
        "compiled": side(5.0, speedup * 1000.0),
        "compile": {
            "compiled": compiled,
            "stage": "compiled" if compiled else "forward",
            "failure": None if compiled else {"code": "raised", "exception": "RuntimeError", "message": "boom"},
            "graphs": 2,
            "recompiles": ["a size"],
            "graph_breaks": ["a print"],
        },
        "largest_difference": {"step": 2, "nats": 1e-6},
        "numpy": {
            "steps": [1, 3],
            "losses": [6.0, 3.0],
            "largest_difference": {"step": 3, "nats": 2e-6},
            "held_out_cross_entropy": 2.4,
        },
        "conditional_entropy": 2.2,
        "provenance": PROVENANCE,
        "restored": RESTORED,
    }


def health(model: str, complaints: list[dict]) -> dict:
    """A `compile_health.json`, as much of it as is told."""
    report = {"compile_seconds": 9.5, "graphs": 1, "guards": 7, "differences": {} if complaints else {"output": 1e-6}}
    return {
        "model": model,
        "healthy": not complaints,
        "complaints": complaints,
        "benchmark": {
            "training": bool(complaints),
            "eager": {"step_seconds": 0.002, "seconds": [0.002] * 4},
            "compiled": None if complaints else {"step_seconds": 0.001, "seconds": [0.001] * 4},
            "report": report,
        },
        "provenance": PROVENANCE,
        "restored": RESTORED,
    }


def compared() -> dict:
    """A `simulated_vs_real.json`, as much of it as is told, with every reason that there can be."""
    kernel = {
        "source_same": True,
        "ttir_same": True,
        "ptx_same": False,
        "sass_same": True,
        "configuration": {"same": True},
    }
    return {
        "model": "tiny_head",
        "device": "h200",
        "versions": {"torch": "2.11.0", "triton": "3.6.0"},
        "graphs": [
            {
                "direction": "forward",
                "kernels": [kernel],
                "only": {"simulated": [], "real": []},
                "library_calls": {"same": False},
                "why": [
                    {"code": "both_operations", "simulated": {"aten.a": 1}, "real": {"aten.b": 2}},
                    {"code": "real_operations", "real": {"aten.b": 2}},
                    {"code": "library_calls"},
                    {"code": "bodies", "kernels": ["k0"]},
                    {"code": "compiled", "kernels": ["k0"]},
                ],
            }
        ],
        "provenance": PROVENANCE,
        "restored": RESTORED,
    }
