"""The five sentences that stage 26's report begins with: asked, found, surprising, not known, what to look at next.

Each is a code and fields, chosen by the figures; `templates/findings_26.md` and its twin word them.
"""


def findings(places: list[dict], name: str, timeline: bool) -> list[dict]:
    """What the report begins with.

    Args:
        places: as `stage_26.place_view` gives them, the smallest shape first.
        name: of the device.
        timeline: whether passes were kept block by block.
    """
    return [
        {"code": "asked"},
        _found(places, name),
        _surprising(places),
        _not_known(places, name),
        _next(places, timeline),
    ]


def _found(places: list[dict], name: str) -> dict:
    compared = [one for one in places if one["over_best"] is not None]
    if not compared:
        return {"code": "nothing", "name": name}
    first, least = compared[0], min(compared, key=lambda one: one["over_best"])
    return {
        "code": "times",
        "name": name,
        "place": first["place"],
        "us": first["one"]["device_us"],
        "times": first["over_best"],
        "peer": first["best"]["rung"],
        "least": least["over_best"],
        "least_at": least["place"],
    }


def _surprising(places: list[dict]) -> dict:
    compared = [one for one in places if one["over_graph"] is not None and one["graph_over_best"] is not None]
    slower = [one for one in compared if one["over_graph"] < 1 and not one["within_noise"]]
    if slower:
        worst = min(slower, key=lambda one: one["over_graph"])
        return {"code": "graph_wins", "place": worst["place"], "times": 1 / worst["over_graph"]}
    if compared:
        first = compared[0]
        told = {"place": first["place"], "graph": first["graph_over_best"], "one": first["over_graph"]}
        return {"code": "launches_count" if first["over_graph"] > first["graph_over_best"] else "fusion_counts", **told}
    return {"code": "no_surprise"}


def _not_known(places: list[dict], name: str) -> dict:
    if any(one["best"] for one in places):
        return {"code": "inside_kernels"}
    return {"code": "one_machine", "name": name}


def _next(places: list[dict], timeline: bool) -> dict:
    gaps = next((one for one in places if one["gaps"] is not None), None)
    if timeline and gaps:
        return {"code": "gaps", "share": gaps["gaps"], "peer": gaps["best"]["rung"], "place": gaps["place"]}
    return {"code": "concept"}
