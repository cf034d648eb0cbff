"""What `--config` sets has the type that its key has in the schema; a name that looks like a number stays a name."""

import math
from pathlib import Path

import pytest
from declared_faults import fault

from minilab.config.check import read_schema
from minilab.config.options import read_options

SCHEMA = read_schema(Path(__file__).parents[2] / "schemas/config.schema.yaml")


@fault("a name on the command line looks like a number: `class=0042`", None, "It stays a name, as it was typed.")
@pytest.mark.parametrize(
    ("typed", "key", "value"),
    [
        ("class=0042", "class", "0042"),
        ("class='007'", "class", "007"),
        ("exercise=01", "exercise", "01"),
        ("knob=1e3", "knob", "1e3"),
        ("before=on", "before", "on"),
        ("demo_prompt=He said: so", "demo_prompt", "He said: so"),
        ("against=", "against", ""),
        (
            "devices={measure: [1080, 0x10], recorded: auto}",
            "devices",
            {"measure": ["1080", "0x10"], "recorded": "auto"},
        ),
        ("records={sign: 0042, stale: mark}", "records", {"sign": "0042", "stale": "mark"}),
        ("records={sign: null}", "records", {"sign": None}),
        ("kernels={mine: {source: a.py, function: 7}}", "kernels", {"mine": {"source": "a.py", "function": 7}}),
        ("models={mine: {train: yes, kwargs: {a: 1}}}", "models", {"mine": {"train": True, "kwargs": {"a": 1}}}),
        (
            "training={seed: 7, clip: .inf, phases: [{steps: 3}], on: yes}",
            "training",
            {"seed": 7, "clip": math.inf, "phases": [{"steps": 3}], "on": True},
        ),
        ("grade={'timed': True, 'time_limit_seconds': 1.5}", "grade", {"timed": True, "time_limit_seconds": 1.5}),
        ("corpus={seed: 0x" + "f" * 9000 + "}", "corpus", {"seed": "0x" + "f" * 9000}),
        ("training=7", "training", 7),
        ("unknown=7", "unknown", 7),
        ("training={seed", "training", "{seed"),
    ],
)
def test_a_value_has_the_type_of_its_key(typed: str, key: str, value: object):
    assert read_options([typed], SCHEMA).settings == {key: value}


@fault("`model` is given twice, as a section and as a name", None, "Both count, in either order.")
def test_a_section_and_the_model_that_is_named_both_count():
    typed = ["model={n_layer: 2}", "model=minigpt", "training={seed: 7}", "model={n_head: 2}", "training={clip: 2}"]
    for given in (typed, typed[::-1]):
        options = read_options(given, SCHEMA)
        assert options.model == "minigpt"
        assert options.settings == {"model": {"n_layer": 2, "n_head": 2}, "training": {"seed": 7, "clip": 2}}
    assert read_options(["model=01"], SCHEMA) == ({}, "01")
    assert read_options([], SCHEMA) == ({}, None)


def test_what_a_profile_adds_is_told_from_what_was_typed():
    options = read_options(["language=es", "knob=fusion"], SCHEMA)
    places = options.by_place(["snakemake", "--config", "knob=fusion", "--workflow-profile", "mine"])
    assert places == {"the profile": {"language": "es"}, "the command line": {"knob": "fusion"}}
