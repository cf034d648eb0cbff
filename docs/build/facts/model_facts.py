"""The figures of the model in one kernel that its concept page quotes: what launches and waits cost, and the record."""

from pathlib import Path

from minikernel.report.model.stage_26 import place_view
from minikernel.report.model.step_floor import costs as measured_costs
from minikernel.report.model.views import shown
from minilab.files import read_json


def model_facts(record: Path) -> dict:
    """Collect what the page quotes.

    Args:
        record: folder of a GPU's record of stage 26; it may hold no `model.json` yet.

    Returns:
        `costs`, with waits also in microseconds, and `places`, each with its rows and ratios, none without a record.
    """
    costs = dict(measured_costs())
    for name, clocks in list(costs.items()):
        if name.endswith("_clocks"):
            waits = clocks.values() if isinstance(clocks, dict) else [clocks]
            costs[f"{name.removesuffix('_clocks')}_us"] = max(waits) / costs["clocks_per_us"]
    timed = record / "model.json"
    seen = shown(read_json(timed)) if timed.exists() else None
    return {
        "costs": costs,
        "name": seen.name if seen else None,
        "empty_us": seen.empty_us if seen else None,
        "places": [place_view(place) for place in seen.places] if seen else [],
    }
