"""What a run builds, from its configuration and the devices that are here."""

import re
from pathlib import Path

import pytest
import yaml

from minilab import LabError
from minilab.plan import Plan, measured_devices
from minilab.records.artefact import RECORDED, TABLE, artefact, artefact_at, artefact_recorded_at, recorded_artefact
from minilab.records.params import in_order

ROOT = Path(__file__).parents[2]


@pytest.fixture
def config() -> dict:
    return yaml.safe_load((ROOT / "config.yaml").read_text())


def test_measured_and_recorded_devices_never_overlap(config: dict):
    config["devices"] = {"measure": ["h200", "cpu-x"], "recorded": ["h200", "a100"]}
    plan = Plan(config, measured_devices(config))
    assert plan.measured == ["h200", "cpu-x"]
    assert plan.recorded == ["a100"]
    assert plan.devices == ["h200", "cpu-x", "a100"]


def test_a_cluster_is_told_its_devices(config: dict):
    with pytest.raises(LabError, match="name the devices"):
        measured_devices(config, elsewhere=True)
    config["devices"]["measure"] = ["h200"]
    assert measured_devices(config, elsewhere=True) == ["h200"]


def test_recorded_devices_are_found(config: dict):
    assert Plan(config, ["cpu-x"]).recorded == ["h200"]


def test_what_is_published(config: dict):
    assert Plan(config, ["h200", "cpu-x"]).published == ["h200"]
    with pytest.raises(LabError, match="nothing to record"):
        _ = Plan(config, ["cpu-x"]).published
    config["records"]["publish"] = ["cpu-x"]
    assert Plan(config, ["cpu-x"]).published == ["cpu-x"]


def test_a_gpu_publishes_what_a_cpu_has_not(config: dict):
    plan = Plan(config, ["h200", "cpu-x"])
    gpu, cpu = ({artefact_at(path)[0].name for path in plan.to_publish(device)} for device in ("h200", "cpu-x"))
    assert gpu == {entry.name for entry in TABLE if entry.recorded}
    assert gpu - cpu == {
        "autotune",
        "contest",
        "head",
        "watched",
        "watched_simulated",
        "gemv",
        "model_contest",
        "training_contest",
    }


def test_of_two_records_of_one_name_the_wildcards_say_which():
    assert recorded_artefact({"file": "training", "device": "h200"}).name == "training_contest"
    assert recorded_artefact({"file": "training", "device": "h200", "model": "minigpt"}).name == "port_training"
    assert recorded_artefact({"file": "bench", "device": "h200"}).name == "bench"


def test_the_heads_loss_is_shown_of_devices_that_are_here_and_of_complete_records(
    config: dict, tmp_path: Path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    for device, names in {"h200": ("loss", "loss_correctness"), "a100": ("loss",)}.items():
        for name in names:
            path = Path(artefact(name).record(device=device))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("{}")
    config["devices"]["recorded"] = ["h200", "a100"]
    plan = Plan(config, ["cpu-x"])
    assert plan.losses == ["cpu-x", "h200"]
    assert [plan.places(artefact(name)) for name in ("loss", "loss_correctness")] == [
        [{"device": "cpu-x"}, {"device": "h200"}]
    ] * 2


def test_pages_are_published_beside_what_they_show(config: dict):
    pages = Plan(config, ["h200", "cpu-x"]).pages("h200")
    assert {"results/24/roofline.png", "results/24/bandwidth.svg", "results/25/minigpt/h200/training.png"} <= set(pages)
    assert not [page for page in pages if page.endswith("explorer.html")]  # it is concluded from what was watched
    script, shows = pages["results/25/minigpt/h200/training.png"]
    assert (script, shows) == ("scripts/training_picture.py", ["results/25/minigpt/h200/training.json"])


def test_timed_kernels_by_device(config: dict, monkeypatch: pytest.MonkeyPatch):
    plan = Plan(config, ["h200", "cpu-x"])
    gpus = ["naive", "smem", "warp", "fused", "triton_textbook", "triton"]
    assert plan.timed_kernels("h200") == [*gpus, "F.softmax", "compile"]
    assert plan.kernels_of("h200") == gpus
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert plan.timed_kernels("cpu-x") == ["numpy", "F.softmax"]
    assert plan.kernels_of("cpu-x") == list(config["kernels"])


def test_measuring_params_follow_their_knobs_alone(config: dict):
    at = {"device": "h200", "kernel": "fused", "model": "minigpt"}
    before = {entry.name: entry.params(config, at) for entry in TABLE}
    config["bench"]["cuda"]["launches"] = 200
    after = {entry.name: entry.params(config, at) for entry in TABLE}
    assert [name for name in before if before[name] != after[name]] == ["bench"]


def test_the_order_in_which_a_configuration_is_written_is_no_parameter():
    entries = [{"source": "a.py", "function": "f"}, {"function": "f", "source": "a.py"}]
    first, second = (in_order({"entry": entry, "cases": [entry]}) for entry in entries)
    assert repr(first) == repr(second)
    assert first == {"entry": entries[0], "cases": [entries[0]]}


def test_every_kernels_sources_are_its_own(config: dict):
    bench = artefact("bench")
    files = {kernel: bench.sources(config, {"device": "h200", "kernel": kernel}) for kernel in config["kernels"]}
    for kernel, headers in {
        "naive": ["common"],
        "smem": ["common"],
        "warp": ["common"],
        "fused": ["common", "parts"],
    }.items():
        launcher = f"ladder/softmax_{kernel}.py" if kernel == "warp" else f"softmax_{kernel}.py"
        own = {f"src/minikernel/ops/cuda/{kernel}.cu", f"src/minikernel/ops/{launcher}"}
        assert own | {f"src/minikernel/ops/cuda/{name}.cuh" for name in headers} <= set(files[kernel])
        others = [other for other in files if other != kernel]
        assert not any(own & set(files[other]) for other in others)
    assert "src/minikernel/ops/softmax_triton_configs.py" in files["triton"]


def test_a_users_own_file_counts_and_what_it_imports_beside_it(config: dict, tmp_path: Path):
    (tmp_path / "mine.py").write_text("import helper\n")
    (tmp_path / "helper.py").write_text("")
    config["kernels"]["mine"] = {"source": str(tmp_path / "mine.py"), "function": "softmax"}
    found = artefact("bench").sources(config, {"device": "h200", "kernel": "mine"})
    assert {str(tmp_path / "mine.py"), str(tmp_path / "helper.py")} <= set(found)
    assert not any("softmax_triton" in path or path.endswith(".cu") for path in found)


@pytest.mark.parametrize("entry", TABLE, ids=[entry.name for entry in TABLE])
def test_every_artefact_has_its_script_schema_and_place(entry):
    assert (ROOT / entry.script).is_file()
    assert (ROOT / entry.schema).is_file()
    wildcards = {name: f"{name}-x" for name in re.findall(r"{(\w+)}", entry.pattern)}
    assert artefact_at(entry.path(**wildcards)) == (entry, wildcards)
    if entry.recorded:
        record = entry.record(**wildcards)
        assert record.startswith(f"{RECORDED}/device-x/")
        assert artefact_recorded_at(record) == (entry, wildcards)
    assert entry.packed == entry.record(device="d", model="m").endswith(".xz") if entry.recorded else True


def test_no_two_artefacts_claim_one_file():
    for entry in TABLE:
        wildcards = dict.fromkeys(re.findall(r"{(\w+)}", entry.pattern), "x")
        claims = [other.name for other in TABLE if other.match(entry.path(**wildcards)) is not None]
        assert claims == [entry.name]


def test_a_record_that_is_missing_names_the_device_and_the_command(config: dict):
    plan = Plan(config, ["cpu-x"])
    with pytest.raises(LabError, match=r"is no device a100 here .* `snakemake --cores 4 results/24/a100/bench.json`"):
        plan.record_of(artefact("bench"), {"device": "a100"})
    with pytest.raises(LabError, match=r"are not 2 devices a100 here"):
        plan.record_of(artefact("distributed"), {"device": "a100"})


def test_there_is_nothing_to_compare_without_a_record(config: dict):
    config["records"]["publish"] = ["cpu-x"]
    with pytest.raises(LabError, match=r"no record of cpu-x to compare with"):
        Plan(config, ["cpu-x"]).to_compare()
    config["records"]["publish"] = ["h200"]
    compared = Plan(config, ["h200", "cpu-x"]).to_compare()
    assert "results/24/h200/contest.json" in compared
    assert "results/24/h200/kernel_swap.json" not in compared


def test_a_users_model_is_profiled_where_devices_are_measured(config: dict):
    config["models"] = {"mine": {"source": "my.py", "factory": "make", "train": True}}
    plan = Plan(config, ["h200", "cpu-x"])
    places = {place for place in plan.profiles if place[0] == "mine"}
    assert places <= {("mine", "h200"), ("mine", "cpu-x")}
    assert ("mine", "h200") in places
    assert plan.profiles_beside("mine", ["h200"]) == ["results/25/mine/h200/profile.json"]
    params = in_order(artefact("profile_samples").params(config, {"model": "mine", "device": "h200"}))
    assert params["entry"] == config["models"]["mine"]
    assert [case["modes"] for case in params["cases"]] == [config["profile"]["modes"]["cuda"]]
    assert ("mine", "h200") not in Plan(config, ["cpu-x"]).profiles  # whose record has no such model


def test_slugs_of_before_kinds_of_memory_were_left_out_are_found(config: dict, tmp_path: Path):
    """A record of `h100-80gb-hbm3` is that of an `h100`: shown where none is here, and not beside one that is."""
    (tmp_path / "h100-80gb-hbm3/24").mkdir(parents=True)
    named = config | {"devices": {"measure": ["h100-80gb-hbm3", "h100"], "recorded": "auto"}}
    assert measured_devices(named) == ["h100"]
    assert Plan(named, ["h100"], str(tmp_path)).recorded == []
    assert Plan(named, ["cpu-x"], str(tmp_path)).recorded == ["h100-80gb-hbm3"]
