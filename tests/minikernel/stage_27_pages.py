"""Stage 27's page and the head's concept page with what they are written from, and what follows from that."""

from itertools import groupby
from pathlib import Path

import loss_artefact
from numbers_of_a_page import Source
from recorded_pages import RECORD, Page, recorded

from minikernel.report.loss.stage_27 import report_27


def report_27_page() -> Page:
    """The report of the record's artefacts; of ones that are made up, as long as none have been recorded."""
    if Path(RECORD, "27/loss.json").exists() and Path(RECORD, "27/loss_correctness.json").exists():
        loss, verdicts = recorded("27/loss.json"), recorded("27/loss_correctness.json")
    else:
        loss, verdicts = loss_artefact.loss_artefact(), loss_artefact.verdicts_artefact()
    sources = [Source(loss, derived=derived(loss, verdicts)), Source(verdicts)]
    return Page(lambda language: report_27([loss], [verdicts], language), sources)


def derived(loss: dict, verdicts: dict) -> dict:
    """Ratios of times, of memory and of errors; how many verdicts of each kind somebody has."""
    timed = [row for row in loss["rows"] if row["refused"] is None and row["direction"] == "both"]
    place = ("m", "d", "v", "dtype")
    times, memory = [], []
    for _, rows in groupby(timed, key=lambda row: [row[key] for key in place]):
        at = {row["who"]: row for row in rows}
        if "lab" in at and "eager" in at:
            lab, eager = at["lab"], at["eager"]
            times += [eager["median_us"] / lab["median_us"], lab["median_us"] / eager["median_us"]]
            memory += [eager["peak_mib"] / lab["peak_mib"], lab["peak_mib"] / eager["peak_mib"]]
    wrong = [
        row for row in (*timed, *verdicts["cases"]) if row["verdict"] == "wrong" and row["error"] and row["allowed"]
    ]
    kinds = [(row["who"], row["verdict"]) for row in verdicts["cases"]]
    return {
        "milliseconds": [row["median_us"] / 1e3 for row in loss["rows"] if row["median_us"]],
        "times as fast": times,
        "of the memory": memory,
        "times what is allowed": [row["error"] / row["allowed"] for row in wrong],
        "verdicts": [kinds.count(kind) for kind in dict.fromkeys(kinds)] + [0],
    }


def concept_derived(facts: dict) -> dict:
    """What the concept page works out of a GPU's limits."""
    loss = facts["loss"]
    limits = recorded("24/ceilings.json")
    copy, rate = limits["copy_gb_per_s"], limits["bf16_tflop_per_s"]
    tokens, width, words = loss["tokens"], loss["width"], loss["words"]
    widths = [one["width"] for one in loss["products"]]
    return {
        "sizes": [tokens, width, words, *widths],
        "MiB": [2 * a * b / 2**20 for a, b in ((tokens, words), (tokens, width), (width, words))],
        "ps of a pass": [2e3 / copy],
        "ps of a product": [2 * one / rate for one in widths],
        "passes": [one * copy / rate / 1e3 for one in widths],
        "timed": [one[key] for one in loss["measured"] for key in ("width", "words", "lab", "other")],
        "ratio": [one["other"] / one["lab"] for one in loss["measured"]],
        "crossing": [2e3 * rate / copy],
    }
