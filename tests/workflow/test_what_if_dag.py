"""What if, in the workflow: which compiles a knob asks for, and what is refused."""

import re

import pytest
from lab import Lab

from minilab.device import cpu_device

CPU, SIMULATED = cpu_device(), "simulated-h200"


def pages(lab: Lab, model: str, knob: str) -> set[str]:
    return {
        job.split()[1] for job in lab.jobs("what_if", "--config", f"model={model}", f"knob={knob}") if "page" in job
    }


@pytest.mark.parametrize(
    ("model", "knob", "devices"),
    [("minigpt", "fusion", [CPU, SIMULATED]), ("tiny_head", "online_softmax", [SIMULATED])],
)
def test_a_knob_is_flipped_on_each_device_here_that_it_acts_on(lab: Lab, model: str, knob: str, devices: list[str]):
    assert pages(lab, model, knob) == {f"results/25/{model}/{device}/what_if/{knob}.html" for device in devices}


@pytest.mark.parametrize("section_first", [True, False])
def test_naming_a_model_leaves_the_sizes_of_the_configuration(lab: Lab, section_first: bool):
    lab.edit("config.yaml", lambda text: text.replace("n_embd: 64 ", "n_embd: 63 ", 1))
    both = ["model={n_head: 2}", "model=minigpt"][:: 1 if section_first else -1]
    done = lab.snakemake("what_if", "--config", *both, "knob=fusion", "--dry-run", check=False)
    assert "config.yaml and the command line: model.n_embd is 63, which model.n_head = 2 does not divide" in done.stdout


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ([], "models are tiny_head, minigpt,.*knobs are fusion, inplace_buffers,"),
        (["model=tiny_head", "knob=fussion"], "knobs are fusion, inplace_buffers,"),
        (["model=01", "knob=fusion"], "models are tiny_head, minigpt,"),
        (["model=minigpt_swapped", "knob=vectors"], "vectors acts on cpu, and minigpt_swapped is compiled for none"),
    ],
)
def test_a_question_that_cannot_be_answered_is_refused_with_what_can(lab: Lab, asked: list[str], said: str):
    done = lab.snakemake("what_if", *(["--config", *asked] if asked else []), "--dry-run", check=False)
    assert done.returncode
    assert re.search(said, done.stdout)
