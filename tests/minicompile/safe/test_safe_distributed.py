"""Two gloo ranks: they compile together, or fall back together, under DDP and under FSDP2."""

import json
import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "safe_ranks.py"


@pytest.fixture(scope="module")
def ranks(tmp_path_factory, forked_python: str) -> list[dict]:
    """What each rank found, of one run of all scenarios."""
    folder = tmp_path_factory.mktemp("ranks")
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo"}
    logs = [open(folder / f"{rank}.log", "w") for rank in range(2)]  # noqa: SIM115
    processes = [
        subprocess.Popen(
            [forked_python, SCRIPT, str(rank), str(folder / "store"), str(folder / f"{rank}.json")],
            stderr=log,
            env=environment,
        )
        for rank, log in enumerate(logs)
    ]
    try:
        for process in processes:
            process.wait(timeout=300)
    finally:
        for process, log in zip(processes, logs, strict=True):
            process.kill()
            log.close()
    for rank, process in enumerate(processes):
        assert process.returncode == 0, (folder / f"{rank}.log").read_text()[-3000:]
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)]


@pytest.mark.parametrize("scenario", ["ddp", "ddp_wrapped", "fsdp"])
def test_every_rank_compiles_and_trains_as_eager_does(ranks, scenario):
    for found in ranks:
        assert found[scenario]["stage"] == "compiled", found[scenario]
        assert found[scenario]["same"]


def test_under_fsdp2_the_blocks_compile_and_the_wrappers_stay_eager(ranks):
    for found in ranks:
        assert found["fsdp"]["modules"] == ["blocks.0", "blocks.1", "blocks.2"]
        assert found["fsdp"]["wrappers"] == 4


@pytest.mark.parametrize(("failure", "stage"), [("failing", "forward"), ("lying", "numerics")])
@pytest.mark.parametrize("wrapper", ["ddp", "fsdp"])
def test_if_one_rank_falls_back_all_do(ranks, wrapper, failure, stage):
    first, second = (found[f"{wrapper}_{failure}"] for found in ranks)
    assert (first["compiled"], second["compiled"]) == (False, False)
    # Under FSDP2 a rank that lies spoils the other's gradients too, so that the other may notice by itself.
    assert first["stage"] == "ranks" or (wrapper, failure) == ("fsdp", "lying")
    assert second["stage"] == stage
    if first["stage"] == "ranks":
        assert "rank 1: " in first["reason"]
    assert first["same"]
    assert second["same"]


def test_under_the_raise_policy_every_rank_raises(ranks):
    assert [found["raised"] for found in ranks] == ["OtherRankFailed", "BackendCompilerFailed"]
