"""What every rule of the workflow has, and the documents that are written from schema and tests."""

import re

import pytest
import yaml
from lab import ROOT

from docs.build import config_page

SCHEMA = ROOT / "schemas/config.schema.yaml"
# Called by a person for their effect: a benchmark would count as their output, and they would run only once.
ASKED = {"record", "verify_records", "compare_records"}


def rules() -> dict[str, str]:
    """Name -> text of every rule that runs something."""
    texts = [path.read_text() for path in (ROOT / "Snakefile", *sorted((ROOT / "rules").glob("*.smk")))]
    found = {name: body for text in texts for name, body in re.findall(r"^rule (\w+):\n((?:    .*\n|\n)*)", text, re.M)}
    return {name: body for name, body in found.items() if "    script:" in body}


@pytest.mark.parametrize("directive", ["log:", "conda:", "resources:", "mem_mb=", "runtime="])
def test_every_job_has_a_log_an_environment_and_limits(directive: str):
    assert len(rules()) > 30
    assert [name for name, body in rules().items() if f"    {directive}" not in body] == []


def test_every_job_says_what_it_does():
    assert [name for name, body in rules().items() if not body.startswith('    """')] == []


def test_every_job_that_snakemake_may_skip_is_timed():
    assert {name for name, body in rules().items() if "    benchmark:" not in body} == ASKED


def test_every_job_on_a_device_takes_its_cores_or_one_and_a_gpu():
    measuring = {name: body for name, body in rules().items() if "gpu=" in body}
    assert len(measuring) > 5
    on_a_cpu_alone = {name for name, body in rules().items() if "device=any_of(filter(is_cpu, " in body}
    timed = {name for name, body in rules().items() if "threads: workflow.cores" in body}
    assert timed - on_a_cpu_alone - set(measuring) == set()


def test_the_page_of_the_configuration_is_current():
    written = config_page.document(SCHEMA, ROOT / "config.yaml")
    assert (ROOT / "docs/config.md").read_text() == written, "write it again: python -m docs.build config"


def test_every_key_of_the_configuration_is_explained():
    explained = config_page.described(SCHEMA)
    missing = [name for name in keys(yaml.safe_load((ROOT / "config.yaml").read_text())) if not explained.get(name)]
    assert missing == []


def keys(section: dict, name: str = ""):
    """The dotted names of the shipped configuration, down to where names are the user's own."""
    for key, value in section.items():
        yield f"{name}{key}"
        if isinstance(value, dict) and f"{name}{key}" not in ("kernels", "models"):
            yield from keys(value, f"{name}{key}.")


def test_the_catalogue_says_how_to_run_the_workflow():
    catalogue = yaml.safe_load((ROOT / ".snakemake-workflow-catalog.yml").read_text())
    assert "snakemake" in catalogue["usage"]["mandatory-flags"]["desc"]
    assert catalogue["usage"]["report"] is True
