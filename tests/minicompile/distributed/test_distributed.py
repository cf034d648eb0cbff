"""The four patterns on real processes: the same training as one process, the formula's communication, clean failure."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from minicompile.distributed import launch, measure
from minicompile.distributed.measure import check_divides, loss_difference, torch_devices
from minicompile.distributed.parts import batches, build_model
from minicompile.distributed.patterns import Training, single
from minicompile.distributed.pipeline import Stretches
from minilab import LabError
from minilab.config.check import check_schema, read_schema
from minilab.device import gpu_devices

pytestmark = pytest.mark.usefixtures("forked_python")
PARAMS = {
    "ranks": [2],
    "n_layer": 4,
    "n_head": 6,
    "n_embd": 36,
    "vocab_size": 60,
    "block_size": 8,
    "batch": 6,
    "microbatches": 3,
    "steps": 2,
    "seed": 7,
    "learning_rate": 0.001,
    "loss_rtol": {"bfloat16": 5e-3, "float32": 1e-5},
    "time_limit_seconds": 120,
}
ON_TWO = ["ddp", "fsdp", "tp", "pp", "pp_interleaved", "pp_zb1p", "pp_zbv"]
SIZES = {name: PARAMS[name] for name in measure.SIZES}
CPU = torch.device("cpu")
RTOL = PARAMS["loss_rtol"]["float32"]


def job(pattern: str, devices: list[str], **changes) -> dict:
    names = ("seed", "learning_rate", "batch", "microbatches", "steps", "time_limit_seconds")
    common = {name: PARAMS[name] for name in names}
    return {
        **common,
        "sizes": SIZES,
        "backend": "gloo",
        "threads": 1,
        "runs": [(pattern, "float32")],
        "devices": devices,
        **changes,
    }


@pytest.fixture(scope="module")
def measured(forked_python: str) -> dict:
    """The four patterns on two processes; refused by `measure` itself if a loss is not the single process's."""
    return measure.measure(PARAMS, ["cpu"])


def by_pattern(measured: dict, dtype: str = "float32") -> dict[str, dict]:
    return {run["pattern"]: run for run in measured["runs"] if run["dtype"] == dtype}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_every_pattern_has_the_single_process_loss_in_every_step(measured: dict, dtype: str):
    single, *runs = by_pattern(measured, dtype).values()
    alone = single["losses"]
    assert 2 * len(set(alone)) == len(alone)  # it trains on other tokens in each step of a round, and on the same again
    for run in runs:
        differences = [abs(loss - reference) / reference for loss, reference in zip(run["losses"], alone, strict=True)]
        assert max(differences) <= PARAMS["loss_rtol"][dtype], run["pattern"]
        assert run["loss_max_rel_difference"] == max(differences)


def test_every_pattern_communicates_what_its_formula_says(measured: dict):
    for dtype in PARAMS["loss_rtol"]:
        single, *runs = by_pattern(measured, dtype).values()
        assert [run["pattern"] for run in runs] == ON_TWO
        for run in runs:
            assert run["collectives"] == run["formula"], run["pattern"]
            assert all(run["collectives"])  # each rank did communicate
            assert run["matches_formula"]
        assert single["collectives"] == [{}]


def test_bfloat16_sends_half_the_bytes(measured: dict):
    half, whole = (by_pattern(measured, dtype)["ddp"]["sent_bytes"] for dtype in ("bfloat16", "float32"))
    assert half == [size / 2 for size in whole]


def test_a_pipeline_knows_what_its_ranks_compute_and_the_others_do_not(measured: dict):
    runs = by_pattern(measured)
    steps = zip(*runs["pp"]["step_seconds_by_rank"], strict=True)
    for step, busy in zip(steps, zip(*runs["pp"]["busy_seconds_by_rank"], strict=True), strict=True):
        assert all(0 < computing < whole for computing, whole in zip(busy, step, strict=True))
    assert [name for name, run in runs.items() if "busy_seconds_by_rank" in run] == ON_TWO[3:]
    assert {name for name, run in runs.items() if "alone_seconds" in run} == {"tp", "pp"}


def test_each_round_has_its_half_of_the_steps(measured: dict):
    assert {len(run["step_seconds"]) for run in measured["runs"]} == {measure.ROUNDS * PARAMS["steps"]}


def test_sharding_holds_less_than_replication(measured: dict):
    runs = by_pattern(measured)
    assert runs["single"]["peak_memory_bytes"][0] > 16 * measured["model"]["parameters"]
    for pattern in ("fsdp", "tp", "pp"):
        assert max(runs[pattern]["peak_memory_bytes"]) < min(runs["ddp"]["peak_memory_bytes"])


def test_the_artefact_fits_its_schema(measured: dict):
    schema = read_schema("schemas/distributed.schema.yaml")
    artefact = json.loads(json.dumps({**measured, "provenance": {}}))
    check_schema(artefact, schema, "distributed.json")
    del artefact["runs"][-1]["loss_max_rel_difference"]
    with pytest.raises(LabError, match="loss_max_rel_difference"):
        check_schema(artefact, schema, "distributed.json")


def test_a_pipeline_of_three_ranks_has_one_between_two_others(measured: dict):
    (results,) = launch.run_ranks(job("pp", ["cpu"] * 3))
    found = measure.summary("pp", results, PARAMS)
    assert found["collectives"] == found["formula"]
    single = by_pattern(measured)["single"]
    loss_difference(found, {**single, "losses": single["losses"][: len(found["losses"])]}, RTOL)


OF_FOUR = {**PARAMS, "ranks": [2, 4], "n_layer": 8, "n_head": 4, "n_embd": 16, "batch": 4, "microbatches": 4}
ON_FOUR = [  # what does more on four ranks than on two
    ("fsdp_tp", "bfloat16"),
    ("fsdp_tp", "float32"),
    ("pp_interleaved", "float32"),
    ("pp_zb1p", "bfloat16"),
    ("pp_zbv", "float32"),
]


def test_four_ranks_train_the_same_model_and_send_what_their_formulas_say(forked_python: str):
    sizes = {name: OF_FOUR[name] for name in measure.SIZES}
    changes = {"sizes": sizes, "batch": 4, "microbatches": 4, "steps": 1}
    alone, dtypes = {}, ("bfloat16", "float32")
    for dtype in dtypes:
        step = single(build_model(sizes, PARAMS["seed"], CPU, dtype), Training(0.001, 1, CPU, Stretches(CPU)))
        losses = [step(*pair).item() for pair in batches(sizes, 4, 4, PARAMS["seed"])]
        alone[dtype] = {"losses": losses}
    launched = launch.run_ranks(job("", ["cpu"] * 4, runs=ON_FOUR, **changes))
    for (pattern, dtype), results in zip(ON_FOUR, launched, strict=True):
        found = measure.summary(pattern, results, OF_FOUR, dtype)
        assert found["collectives"] == found["formula"], pattern
        loss_difference(found, alone[dtype], PARAMS["loss_rtol"][dtype])


def test_the_mesh_needs_two_ranks_for_each_of_its_patterns():
    assert [ranks for ranks in range(1, 9) if "fsdp_tp" in measure.patterns_on(ranks)] == [4, 6, 8]


def test_ranks_that_do_not_synchronise_are_refused(measured: dict):
    losses, alone = [], by_pattern(measured)["single"]
    for half in range(2):
        training = Training(PARAMS["learning_rate"], 1, CPU, Stretches(CPU))
        step = single(build_model(SIZES, PARAMS["seed"], CPU), training)
        data = batches(SIZES, PARAMS["batch"], len(alone["losses"]) // measure.ROUNDS, PARAMS["seed"])
        losses.append([step(ids.chunk(2)[half], targets.chunk(2)[half]).item() for ids, targets in data])
    means = [sum(pair) / 2 for pair in zip(*losses, strict=True)]
    assert means[0] == pytest.approx(alone["losses"][0], rel=RTOL)
    found = {"pattern": "ddp", "dtype": "float32", "ranks": 2, "losses": means}
    with pytest.raises(LabError, match="does not train the same model"):
        loss_difference(found, {"losses": alone["losses"][: len(means)]}, RTOL)


def test_a_loss_that_is_no_number_is_refused():
    found = {"pattern": "tp", "dtype": "float32", "ranks": 2, "losses": [float("nan")]}
    with pytest.raises(LabError, match="step 0"):
        loss_difference(found, {"losses": [1.0]}, 1e-5)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen]:
    """The processes that `run_ranks` starts."""
    processes: list[subprocess.Popen] = []

    class Remembered(subprocess.Popen):
        def __init__(self, *args, **kwargs) -> None:
            super().__init__(*args, **kwargs)
            processes.append(self)

    monkeypatch.setattr(launch.subprocess, "Popen", Remembered)
    return processes


def test_a_failing_rank_is_named_with_its_exception_and_none_is_left(started: list):
    with pytest.raises(LabError) as error:
        launch.run_ranks(job("ddp", ["cpu", "warp-drive"]))
    said = r"training under ddp on 2 ranks failed: rank 1(, under ddp in float32,)? raised RuntimeError: "
    assert re.search(said, str(error.value))  # it fails before it comes to a pattern, or in one
    assert "\n" not in str(error.value)
    assert len(started) == 2
    assert all(process.returncode is not None for process in started)


def test_time_is_limited_and_no_process_is_left(started: list):
    with pytest.raises(LabError, match=r"fsdp on 2 ranks did not end within 0\.2 seconds"):
        launch.run_ranks(job("fsdp", ["cpu"] * 2, time_limit_seconds=0.2))
    assert len(started) == 2
    assert all(process.returncode is not None for process in started)


def test_a_rank_ends_with_its_parent(tmp_path: Path):
    (tmp_path / "job.json").write_text(json.dumps(job("ddp", ["cpu"] * 2)))  # it waits for a rank that never comes
    command = [sys.executable, "-m", "minicompile.distributed.worker", str(tmp_path), "0"]
    rank = subprocess.Popen(command, stdin=subprocess.PIPE)
    rank.stdin.close()
    assert rank.wait(timeout=300) == 1
    assert not list(tmp_path.glob("result-*"))


def write_error(folder: Path, rank: int, at: float) -> None:
    error = {
        "type": "RuntimeError",
        "message": f"message {rank}.",
        "traceback": "",
        "time": at,
        "doing": "tp in float32",
    }
    (folder / f"error-{rank}.json").write_text(json.dumps(error))


def test_the_oldest_exception_is_the_cause(tmp_path: Path):
    write_error(tmp_path, 0, at=2.0)
    write_error(tmp_path, 1, at=1.0)
    assert launch.first_failure([1, 1], tmp_path) == "rank 1, under tp in float32, raised RuntimeError: message 1"


def test_a_killed_rank_is_the_cause(tmp_path: Path):
    write_error(tmp_path, 0, at=1.0)
    assert launch.first_failure([1, -9], tmp_path) == "rank 1 was ended by SIGKILL"


def test_a_rank_that_leaves_without_a_word(tmp_path: Path):
    (tmp_path / "log-1.txt").write_text("Traceback\nImportError: no torch\n")
    assert launch.first_failure([None, 1], tmp_path) == "rank 1 left with status 1 after 'ImportError: no torch'"


def test_multicast_stays_off(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NCCL_NVLS_ENABLE", "1")
    assert launch.environment()["NCCL_NVLS_ENABLE"] == "0"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"batch": 9, "microbatches": 3}, "9 sequences"),
        ({"n_head": 5}, "5 heads"),
        ({"vocab_size": 61}, "61 words"),
        ({"microbatches": 4}, "microbatches is 4;"),
        ({"microbatches": 1}, "microbatches is 1"),
        ({"n_layer": 3}, "a model of 3 blocks cannot be cut into the 4 stages"),
        ({"batch": 10, "microbatches": 5}, "microbatches is 5, which"),
    ],
)
def test_sizes_that_cannot_be_dealt_out_are_refused(changes: dict, sentence: str):
    with pytest.raises(LabError, match=sentence):
        check_divides({**PARAMS, **changes}, 2)


def test_more_gpus_asked_for_than_there_are():
    with pytest.raises(LabError, match="asks for 2 or 4 GPUs and 1 of this kind is here"):
        measure.measure({**PARAMS, "ranks": [2, 4]}, ["cuda:0"])


def test_gpus_are_used_as_far_as_they_go(monkeypatch: pytest.MonkeyPatch):
    jobs = []

    def run_ranks(job: dict) -> list[dict]:
        jobs.append(job)
        result = {"losses": [1.0], "step_seconds": [1.0], "collectives": {}, "peak_memory_bytes": 1}
        result |= {"busy_seconds": [], "alone_seconds": []}
        return [[result] * len(job["devices"])] * len(job["runs"])

    monkeypatch.setattr(measure, "run_ranks", run_ranks)
    report = measure.measure({**PARAMS, "ranks": [2, 4]}, ["cuda:1", "cuda:3"])
    alone, together = jobs[:2]
    assert jobs[2:] == [{**job, "runs": job["runs"][::-1]} for job in (together, alone)]  # the second round, backwards
    assert (alone["devices"], together["devices"]) == (["cuda:1"], ["cuda:1", "cuda:3"])
    assert alone["runs"] == [("single", "bfloat16"), ("single", "float32")]
    assert [pattern for pattern, dtype in together["runs"] if dtype == "bfloat16"] == ON_TWO
    assert {job["backend"] for job in jobs} == {"nccl"}
    assert report["left_out"] == [{"code": "too_few_gpus", "ranks": 4, "here": 2}]
    communicating = [run for run in report["runs"] if run["pattern"] != "single"]
    assert not any(run["matches_formula"] for run in communicating)


def test_two_ranks_and_four_are_measured_where_there_are_four(monkeypatch: pytest.MonkeyPatch):
    jobs = []

    def run_ranks(job: dict) -> list[list[dict]]:
        jobs.append((len(job["devices"]), list(dict.fromkeys(pattern for pattern, _ in job["runs"]))))
        result = {"losses": [1.0], "step_seconds": [1.0], "collectives": {}, "peak_memory_bytes": 1}
        result |= {"busy_seconds": [], "alone_seconds": []}
        return [[result] * len(job["devices"])] * len(job["runs"])

    monkeypatch.setattr(measure, "run_ranks", run_ranks)
    report = measure.measure(OF_FOUR, [f"cuda:{number}" for number in range(4)])
    with_mesh = [*ON_TWO[:3], "fsdp_tp", *ON_TWO[3:]]
    assert jobs[:3] == [(1, ["single"]), (2, ON_TWO), (4, with_mesh)]
    assert jobs[3:] == [(4, with_mesh[::-1]), (2, ON_TWO[::-1]), (1, ["single"])]
    assert report["left_out"] == []
    measured = [(run["ranks"], run["dtype"], run["pattern"]) for run in report["runs"]]
    on_four = [(4, dtype, pattern) for dtype in OF_FOUR["loss_rtol"] for pattern in with_mesh]
    assert measured[2 * (1 + len(ON_TWO)) :] == on_four


@pytest.mark.gpu
@pytest.mark.parametrize("params", [PARAMS, OF_FOUR], ids=["two", "two and four"])
def test_every_pattern_on_gpus(params: dict):
    here = gpu_devices()
    devices = torch_devices(here[0]) if here else []
    if len(devices) < max(params["ranks"]):
        pytest.skip(f"needs {max(params['ranks'])} GPUs of one kind")
    report = measure.measure({**params, "loss_rtol": {"bfloat16": 5e-3, "float32": 1e-4}}, devices)
    assert all(run["matches_formula"] for run in report["runs"])
    assert by_pattern(report)["single"]["peak_memory_bytes"][0] > 16 * report["model"]["parameters"]
