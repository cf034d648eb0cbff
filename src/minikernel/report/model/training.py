"""What there is to say of `training.json`: a step at each shape, the whole trainings, and the bars."""

from minikernel.measure.training.names import EAGER, GRAPH, GRAPH_OF_COMPILED, ONE, RUNGS
from minikernel.report.model.step_floor import floors
from minilab.device import short_name

AT_MOST = ("seconds", "excess")  # bars from above; of a ratio more is better


def training_view(made: dict | None, ceilings: dict | None = None) -> dict | None:
    """What the page asks for of the training in one launch, by name; None where there is nothing to say of it.

    Args:
        made: `training.json`, or None.
        ceilings: `ceilings.json` of the same GPU; without it no floor is argued.
    """
    if made is None or not made["whole"]:
        return None
    provenance, whole = made["provenance"], made["whole"]
    hardware = provenance["hardware"]
    places = places_of(made, ceilings)
    return {
        "name": short_name((hardware["gpu"] or {}).get("name") or hardware["cpu"]),
        "date": provenance["date"][:10],
        "restored": made.get("restored"),
        "places": places,
        "rungs": [rung for rung in RUNGS if any(rung in place["rows"] for place in places)],
        "noise": max((row["noise_floor"] for row in made["steps"]), default=0.0),
        "whole": whole,
        "seconds": max(row["seconds"] for row in whole),
        "least": min(row["excess_percent"] for row in whole) / 100,
        "most": max(row["excess_percent"] for row in whole) / 100,
        "limit": made["limit_nats"],
        "curves": made["curves"],
        "parts": made["timelines"],
        "floors": any(place["floor"] for place in places),
        "bars": [{**bar, "missed_by": missed_by(bar)} for bar in made["bars"]],
        "left_out": made["left_out"],
    }


def places_of(made: dict, ceilings: dict | None = None) -> list[dict]:
    """Every shape with its rows by rung, how many times as fast the one launch is as two of them, and its floor."""
    shapes = dict.fromkeys((row["batch"], row["time"]) for row in made["steps"])
    found, argued = [], floors(made, ceilings)
    for batch, time in shapes:
        rows = {row["rung"]: row for row in made["steps"] if (row["batch"], row["time"]) == (batch, time)}
        times = {
            rung: rows[rung]["us_per_step"] / rows[ONE]["us_per_step"]
            for rung in (EAGER, GRAPH_OF_COMPILED)
            if rung in rows and ONE in rows
        }
        own = {"over_eager": times.get(EAGER), "over_graph": times.get(GRAPH_OF_COMPILED)}
        # the lab's graph, as fast as the one launch
        own["over_one"] = rows[ONE]["us_per_step"] / rows[GRAPH]["us_per_step"] if {ONE, GRAPH} <= rows.keys() else None
        if floor := argued.get((batch, time)):
            own["over_floor"] = rows[ONE]["us_per_step"] / floor.us
        found.append({"batch": batch, "time": time, "rows": rows, "floor": floor, **own})
    return found


def missed_by(bar: dict) -> float | None:
    """By what share a bar is missed; None where it is met or nothing was measured."""
    if bar["met"] or bar["value"] is None:
        return None
    over = bar["value"] / bar["bar"]
    return over - 1 if bar["what"] in AT_MOST else 1 - over
