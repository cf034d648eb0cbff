"""Works out what stage 25's report says first: five sentences, then the findings that matter.

Each is a `code` and its figures; `templates/overview_sentences.md` words them. What a page of its own tells in full is
not worked out a second time: speeds come from `profile_report.findings`, the survey's from `survey.grouped`.
"""

from collections.abc import Sequence
from operator import itemgetter
from typing import NamedTuple

from minicompile.report import words
from minicompile.report.profile_report import findings as speeds
from minicompile.report.survey import grouped, in_order, lacks_bfloat16, pipeline
from minilab.pages.templates import sentences

JUDGED = ("faster", "slower", "as_fast")


class Measured(NamedTuple):
    """All that the sentences follow from.

    Attributes:
        views: as `stage_25.capture_view` makes them.
        profiles, health, distributed, compared: every `profile.json`, `compile_health.json`, `distributed.json` and
            `simulated_vs_real.json`.
    """

    views: Sequence[dict] = ()
    profiles: Sequence[dict] = ()
    health: Sequence[dict] = ()
    distributed: Sequence[dict] = ()
    compared: Sequence[dict] = ()


def five_sentences(made: Measured, language: str = "en") -> list[str]:
    """Say what was asked, what was found, what surprises, what is not known, and what to look at next."""
    judged = _judged(made.profiles)
    told = [_asked(made.views), _found(judged), _surprise(made.views, judged, made.profiles)]
    return _worded([*told, _not_known(made), _next(made.views)], language)


def what_matters(made: Measured, language: str = "en") -> list[str]:
    """Say the findings that matter, but for speed, which stands above; what was not measured is left out."""
    found = [_same_numbers(made.profiles, made.health), _fusion(made.views)]
    return _worded([one for one in (*found, _simulated(made.compared), _survey(made.distributed)) if one], language)


def _worded(found: Sequence[dict], language: str) -> list[str]:
    return sentences("minicompile.report", "overview_sentences", language, found, filters=words.filters(language))


def _judged(profiles: Sequence[dict]) -> list[dict]:
    """List what each profile says of its speeds, with the model and the device."""
    return [
        {"model": profile["model"], "device": profile["provenance"]["device"], **found}
        for profile in profiles
        for found in speeds(profile)
        if found["code"] in JUDGED
    ]


def _asked(views: Sequence[dict]) -> dict:
    return {"code": "asked", "models": _each(views, "model"), "devices": _each(views, "device")}


def _each(views: Sequence[dict], name: str) -> list[str]:
    return list(dict.fromkeys(view[name] for view in views))


def _found(judged: Sequence[dict]) -> dict:
    faster = [one for one in judged if one["code"] == "faster"]
    if not judged:
        return {"code": "found_untimed"}
    if not faster:
        return {"code": "found_no_gain", "count": len(judged)}
    best = max(faster, key=itemgetter("factor"))
    return {**best, "code": "found", "count": len(judged), "faster": len(faster)}


def _surprise(views: Sequence[dict], judged: Sequence[dict], profiles: Sequence[dict]) -> dict:
    slower = [one for one in judged if one["code"] == "slower"]
    if slower:
        worst = max(slower, key=itemgetter("factor"))
        return {**worst, "code": "slower_than_eager", "count": len(slower), "of": len(judged), **_host(worst, profiles)}
    graphs = [graph for view in views for graph in view["graphs"]]
    taken, refused = (sum(graph[name] for graph in graphs) for name in ("fusions", "refused"))
    if refused > taken:
        return {"code": "more_refused", "taken": taken, "refused": refused}
    return {"code": "nothing_surprising"}


def _host(timed: dict, profiles: Sequence[dict]) -> dict:
    """Find what a call at a timing's shape needs of host and device, where one in mode `default` was taken apart."""
    for profile in profiles:
        if (profile["model"], profile["provenance"]["device"]) == (timed["model"], timed["device"]):
            for found in speeds(profile):
                if found["code"] == "overlapping" and found["shape"] == timed["shape"]:
                    return {"host_us": found["host_us"], "device_us": found["device_us"]}
    return {"host_us": None, "device_us": None}


def _not_known(made: Measured) -> dict:
    timed = {profile["model"] for profile in made.profiles}
    timed |= {checked["model"] for checked in made.health if checked["benchmark"]["compiled"]}
    restored = (one for one in (*made.profiles, *made.distributed, *made.compared) if words.is_stale(one))
    gaps = {
        "never_run": any(view["simulated"] for view in made.views),
        "untimed": [model for model in _each(made.views, "model") if model not in timed],
        "float32_only": [one["provenance"]["device"] for one in made.distributed if lacks_bfloat16(one)],
        "stale": sorted({one["provenance"]["device"] for one in restored}),
    }
    return {"code": "not_known" if any(gaps.values()) else "all_measured", **gaps}


def _next(views: Sequence[dict]) -> dict:
    """Point at the explorer of the capture with most kernels, of code that ran where there is any."""
    if not views:
        return {"code": "next_capture"}
    real = [view for view in views if not view["simulated"]] or views
    view = max(real, key=lambda view: sum(graph["kernels"] for graph in view["graphs"]))
    kernels = sum(graph["kernels"] for graph in view["graphs"])
    return {"code": "next_explorer", "model": view["model"], "folder": view["folder"], "kernels": kernels}


def _same_numbers(profiles: Sequence[dict], health: Sequence[dict]) -> dict | None:
    apart = [
        (timing["max_difference"], profile)
        for profile in profiles
        for timing in profile["timings"]
        if timing["max_difference"] is not None
    ]
    if not apart:
        return None
    worst, profile = max(apart, key=lambda pair: pair[0])
    healthy = sum(one["healthy"] for one in health)
    where = {"model": profile["model"], "device": profile["provenance"]["device"]}
    counts = {"count": len(apart), "healthy": healthy, "checks": len(health)}
    return {"code": "same_numbers", "worst": worst, **where, **counts}


def _fusion(views: Sequence[dict]) -> dict | None:
    """Tell what became of the forward graph with most operations, of code that ran where there is any."""
    graphs = [(view, graph) for view in views for graph in view["graphs"] if graph["direction"] == "forward"]
    if not graphs:
        return None
    real = [pair for pair in graphs if not pair[0]["simulated"]] or graphs
    view, graph = max(real, key=lambda pair: pair[1]["operations"])
    return {"code": "fusion", "model": view["model"], "device": view["device"], **graph}


def _simulated(compared: Sequence[dict]) -> dict | None:
    kernels = [kernel for made in compared for graph in made["graphs"] for kernel in graph["kernels"]]
    if not kernels:
        return None
    same = sum(kernel["source_same"] is True for kernel in kernels)
    known = [kernel["sass_same"] for kernel in kernels if kernel["sass_same"] is not None]
    told = {"same": same, "count": len(kernels), "machine_code": sum(known) if known else None}
    return {"code": "simulated", **told, "device": compared[0]["device"]}


def _survey(distributed: Sequence[dict]) -> dict | None:
    if not distributed:
        return None
    artefact = in_order(list(distributed))[0]
    group = grouped(artefact)[0]
    times = {pattern: group.times(pattern) for pattern in group.runs}
    where = {"device": artefact["provenance"]["device"], "ranks": group.ranks, "dtype": group.dtype}
    return {"code": "survey", **where, "times": times, "pipeline": pipeline(group)}
