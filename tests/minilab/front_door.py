"""A small lab for the front door: a summary as Snakemake prints it, its rules, and the files that it speaks of."""

import base64
import gzip
import json
import os
import re
from dataclasses import replace
from pathlib import Path

from PIL import Image

from minilab.records.store import content_sha256
from minilab.site.account import Rule
from minilab.site.render import render_lab_page
from minilab.site.rule_graph import draw_rule_graph

REPORT = """# What was found

See [the table](bench.json), [another page](other/NOTES.md) and ![a picture](roofline.png).

| kernel | µs |
| --- | --- |
| triton | 594 |

<script>alert(1)</script>
"""
CHANGED = {"code": "source_changed", "path": "naive.cu"}
RECORD = {
    "provenance": {"device": "h200", "date": "2026-11-20T12:00:00+00:00"},
    "restored": {"from": "results/recorded/h200/24/bench.json", "stale": True, "reasons": [CHANGED]},
}
RECORD["provenance"]["content_sha256"] = content_sha256(RECORD)
HEADER = "output_file\tdate\trule\tlog-file(s)\tinput-file(s)\tshellcmd\tstatus\tplan"


def rule(name: str, *outputs: str, stage: str = "kernels", **more) -> Rule:
    log = f"logs/{name}.log"
    return Rule(name, f"What {name} does, in `code`.", stage, f"scripts/{name}.py", outputs, log, None, **more)


RULES = [
    rule("bench", "results/24/{device}/bench.json"),
    rule("contest", "results/24/{device}/contest.json", needs_gpu=True),
    rule("roofline", "results/24/roofline.png", stage="report", captions={"results/24/roofline.png": "roofline.rst"}),
    rule("report_24", "results/24/README.md", "results/24/other/NOTES.md", stage="report"),
    rule("restore", "results/24/{device}/{artefact}.json", stage="records"),
    rule("record", stage="records"),
    rule("lab_page", "results/lab.html", stage="front_door"),
    rule("lost", "results/24/lost.json", stage="records"),
    rule("explorer", "results/25/{model}/{device}/explorer.html", stage="explorer"),
    rule(
        "annotate",
        (annotation := "results/25/{model}/{device}/KERNEL_ANNOTATION.md"),
        stage="annotate",
        captions={annotation: "annotation.rst"},
    ),
]
LINES = [
    ("results/24/README.md", "report_24", "results/24/roofline.png,src/words.md", "ok", "no update"),
    ("results/24/other/NOTES.md", "report_24", "results/24/roofline.png,src/words.md", "ok", "no update"),
    (
        "results/24/roofline.png",
        "roofline",
        "results/24/cpu/bench.json,results/24/h200/bench.json",
        "params changed",
        "update pending",
    ),
    ("results/24/lost.json", "lost", "-", "missing", "update pending"),
    ("results/24/h200/bench.json", "restore", "results/recorded/h200/24/bench.json", "ok", "no update"),
    ("results/24/cpu/bench.json", "bench", "src/kernel.cu", "ok", "no update"),
    ("results/25/minigpt/cpu/explorer.html", "explorer", "src/words.md", "ok", "no update"),
    ("results/25/tiny/cpu/KERNEL_ANNOTATION.md", "annotate", "src/words.md", "ok", "no update"),
    ("results/25/tiny/h200/KERNEL_ANNOTATION.md", "annotate", "src/words.md", "ok", "no update"),
]
SUMMARY = "\n".join(
    [
        HEADER,
        *(f"{path}\tnow\t{rule}\tlog\t{inputs}\t-\t{status}\t{plan}" for path, rule, inputs, status, plan in LINES),
    ]
)
DOT = 'digraph g { 0[label="roofline"]; 1[label="bench"]; 2[label="report_24"]; 1 -> 0; 0 -> 2; 1 -> 2; }'


def make_files(folder: Path) -> None:
    """The files of the summary, but for the one that is missing."""
    texts = {
        "results/24/README.md": REPORT,
        "results/24/other/NOTES.md": "# Notes\n\n[back](../README.md)\n",
        "results/24/h200/bench.json": json.dumps(RECORD),
        "results/24/cpu/bench.json": "{}",
        "results/24/bench.json": "{}",
        "results/recorded/h200/24/bench.json": "{}",
        "results/dag.svg": "<svg/>",
        "results/25/minigpt/cpu/explorer.html": "<p>explorer</p>",
        **{f"results/25/tiny/{device}/KERNEL_ANNOTATION.md": "# One\n" for device in ("cpu", "h200")},
        "annotation.rst": "One kernel.\n",
        "exercises/README.md": "# Write a softmax\n",
        "docs/README.md": "1. [Why](concepts/second_in_the_alphabet.md)\n2. [How](concepts/first_in_the_alphabet.md)\n",
        "docs/concepts/second_in_the_alphabet.md": "# Why\n",
        "docs/concepts/first_in_the_alphabet.md": "# How\n",
        "src/words.md": "",
        "src/kernel.cu": "",
        "roofline.rst": "Dots. How to read it: no dot\nlies above ``the line``.\n",
        **{f"scripts/{rule.name}.py": "" for rule in RULES},
    }
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    Image.new("RGB", (1200, 600), "white").save(folder / "results/24/roofline.png")


def reports_of(page: str) -> dict[str, str]:
    """The reports that a page holds, path -> HTML."""
    packed = re.search(r'id="reports">([^<]*)</script>', page)[1]
    return json.loads(gzip.decompress(base64.b64decode(packed)))


def make_page(folder: Path, language: str = "en", benchmark: str | None = None) -> Path:
    """A lab in `folder` and its front door, whose path is returned; `benchmark` is the file of the rule `bench`."""
    make_files(folder)
    rules = [replace(one, benchmark=benchmark) if one.name == "bench" else one for one in RULES]
    names = {rule.name: rule for rule in RULES}
    graph = draw_rule_graph(DOT, RULES, {name: names[name].stage for name in names})
    before = Path.cwd()
    os.chdir(folder)
    try:
        render_lab_page("results/lab.html", rules, SUMMARY, graph, language)
    finally:
        os.chdir(before)
    return folder / "results/lab.html"
