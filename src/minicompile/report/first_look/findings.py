"""Five findings, each one sentence with its figures; `locale/*/first_look.yaml` words them.

Each is worked out of the records that are there; of what no record holds, nothing is said.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from minicompile.lowering.captured import Capture
from minicompile.report.first_look.records import Card, Recorded
from minicompile.report.stage_25 import graph_view
from minikernel.measure.model.names import ONE
from minikernel.report.findings import PLAINEST
from minikernel.report.model.stage_26 import place_view
from minikernel.report.model.views import shown


class Finding(NamedTuple):
    """A sentence's `code`, the `fields` that it names, and the record that they follow from."""

    code: str
    fields: dict[str, Any]
    of: dict


def findings(held: Recorded) -> Iterator[Finding]:
    """What the records show, the plainest first.

    Args:
        held: what the records hold, as `records.recorded` reads them.
    """
    yield from _memory(held.cards[0])
    yield from _head(held.cards[0])
    if held.capture:
        yield from _fusion(held.capture)
    if held.model:
        yield from _whole_model(held.model)
        yield from _writing(held.model)


def _memory(card: Card) -> Iterator[Finding]:
    trusted = [point for point in card.panel["points"] if not point["above_roof"]]  # the fastest first
    plainest = next((point for point in trusted if point["kernel"] in PLAINEST), None)
    if plainest and plainest is not trusted[0]:
        fields = {
            "name": card.panel["name"],
            "kernel": trusted[0]["kernel"],
            "share": trusted[0]["fraction_of_copy"],
            "plainest": plainest["kernel"],
            "plainest_share": plainest["fraction_of_copy"],
        }
        yield Finding("memory", fields, card.of["bench"])


def _head(card: Card) -> Iterator[Finding]:
    if head := card.panel["head"]:
        fields = {"rows": head["rows"], "kernel": head["unfused"], "times": head["speedup"]}
        yield Finding("head", fields, card.of["head"])


def _fusion(capture: Capture) -> Iterator[Finding]:
    graphs = [graph_view(graph) for graph in capture["graphs"]]
    counted = ("operations", "kernels", "calls", "extern_calls", "unwritten_bytes")
    fields = {name: sum(graph[name] for graph in graphs) for name in counted}
    launches = fields["calls"] + fields["extern_calls"]
    megabytes = fields["unwritten_bytes"] / 1e6
    yield Finding(
        "fusion",
        {"model": capture["model"]["name"], "operations": fields["operations"], "calls": launches, "mb": megabytes},
        dict(capture),
    )


def _whole_model(model: dict) -> Iterator[Finding]:
    seen = shown(model)
    for place in map(place_view, seen.places[:1]):
        if place["over_best"] and place["gaps"] is not None:
            fields = {
                "batch": place["place"].batch,
                "time": place["place"].time,
                "us": place["one"]["device_us"],
                "times": place["over_best"],
                "mode": place["best"]["rung"],
                "gaps": place["gaps"],
            }
            yield Finding("whole_model", fields, model)


def _writing(model: dict) -> Iterator[Finding]:
    alone = {row["rung"]: row for row in model["generate"] if row["sequences"] == 1}
    others = [row for rung, row in alone.items() if rung != ONE]
    if ONE in alone and others:
        rate, best = alone[ONE]["tokens_per_s"], max(others, key=lambda row: row["tokens_per_s"])
        fields = {"rate": rate, "other": best["rung"], "times": rate / best["tokens_per_s"]}
        yield Finding("writing", fields, model)
