"""Matrix times vector beside a library's: a dry run on tiny shapes, its schema, its verdicts, its page."""

import pytest
import torch

from minicompile.profile import gemv
from minicompile.recompute import gemv as recompute
from minicompile.report.gemv_report import answers, draw, report
from minikernel.measure.timing import Timing
from minilab import LabError
from minilab.config.check import check_schema, read_schema

PARAMS = {"shapes": [[48, 32]], "dtypes": ["float32", "bfloat16", "int8"], "launches": 3, "warmup": 1}
GPU = {"name": "NVIDIA H200"}


@pytest.fixture(scope="module")
def measured() -> dict:
    """A dry run on the CPU, with the provenance that a GPU's would have."""
    made = gemv.measure_gemv({**PARAMS, "time_limit_seconds": 600}, torch.device("cpu"), lambda _: None)
    provenance = {"date": "2026-01-02T03:04:05+00:00", "hardware": {"gpu": GPU, "cpu": "one"}, "device": "h200"}
    return {**made, "provenance": provenance}


def test_a_dry_run_gives_a_row_for_each_dtype_as_the_schema_says(measured):
    check_schema(measured, read_schema("schemas/gemv.schema.yaml"), "gemv.json")
    assert [row["dtype"] for row in measured["products"]] == PARAMS["dtypes"]
    assert [row["weight_bytes"] for row in measured["products"]] == [48 * 32 * width for width in (4, 2, 1)]
    assert measured["complete"]


def test_the_figures_follow_from_the_launches(measured):
    again = recompute(measured)["products"]
    assert [{key: row[key] for key in new} for row, new in zip(measured["products"], again, strict=True)] == again


@pytest.mark.parametrize("dtype", PARAMS["dtypes"])
def test_library_and_product_compute_the_same_from_every_set_of_weights(dtype):
    sets = gemv.operands((24, 16), dtype, torch.device("cpu"))
    assert len({weights.data_ptr() for _, weights, *_ in sets}) == len(sets) >= 2
    for one in sets[:2]:
        expected = gemv.library(one).float()
        assert torch.allclose(gemv.product(one).float(), expected, rtol=0, atol=0.02 * expected.abs().max())


def test_a_product_that_is_wrong_is_refused(monkeypatch):
    monkeypatch.setattr(gemv, "product", lambda operands: 1.5 * gemv.library(operands))
    with pytest.raises(LabError, match="gemv 8x8 float32: compiled differs"):
        gemv.measure_case((8, 8), "float32", PARAMS, torch.device("cpu"))


def test_no_case_is_begun_after_the_time_limit():
    made = gemv.measure_gemv({**PARAMS, "time_limit_seconds": -1}, torch.device("cpu"), lambda _: None)
    assert not made["complete"]
    assert [one["dtype"] for one in made["left_out"]] == PARAMS["dtypes"]
    assert made["products"] == []


@pytest.mark.parametrize(
    ("compiled", "again", "verdict"),
    [(5.0, 10.1, "faster"), (20.0, 10.1, "slower"), (10.05, 10.1, "same"), (9.5, 12.0, "same"), (10.8, 12.0, "same")],
)
def test_a_difference_within_the_noise_is_none(compiled, again, verdict):
    times = {"cublas": 10.0, "again": again, "compiled": compiled, "max_autotune": 10.0}
    found = gemv.figures({name: Timing([us], [us]) for name, us in times.items()})
    assert found["verdict"] == {"compiled": verdict, "max_autotune": "same"}
    assert found["speedup"]["compiled"] == pytest.approx(10 / compiled)


def test_a_difference_of_less_than_a_hundredth_is_told_as_equal(measured):
    """cuBLAS beside itself gave 1.002 times the speed with a measured noise of 0.0 %, and the page called it faster."""
    for row in measured["products"]:
        row.update(
            verdict={"compiled": "faster", "max_autotune": "slower"}, speedup={"compiled": 1.002, "max_autotune": 0.98}
        )
    assert [(one["faster"], one["slower"], one["same"]) for one in answers(measured)] == [(0, 0, 1), (0, 1, 0)] * 3
    assert "A difference of less than 1% is told as equal too." in report(measured, "en")
    assert "también se da por igual." in report(measured, "es")


def test_the_page_says_at_how_many_shapes_each_side_wins(measured, tmp_path):
    for row, verdict in zip(measured["products"], ("faster", "slower", "same"), strict=True):
        row["verdict"] = {"compiled": verdict, "max_autotune": "faster"}
        row["speedup"] = {"compiled": 1.5, "max_autotune": 1.5}
    assert [(one["dtype"], one["faster"], one["slower"], one["same"]) for one in answers(measured)[::2]] == [
        ("float32", 1, 0, 0), ("bfloat16", 0, 1, 0), ("int8", 0, 0, 1),
    ]  # fmt: skip
    english, spanish = report(measured, "en"), report(measured, "es")
    assert "- float32, compiled: it is faster than cuBLAS at 1 of 1 shapes" in english
    assert "- float32, compilado: es más rápido que cuBLAS en 1 de 1 formas" in spanish
    counted = "in 1 of 3 products, slower in 1, and equal in 1."
    assert f"**compiled** is faster than cuBLAS {counted}" in english
    assert english.index("**max-autotune**") < english.index("| 48 × 32 |")  # the answer comes before the figures
    assert english.count("| 48 × 32 |") == spanish.count("| 48 × 32 |") == 3
    draw(measured, tmp_path / "gemv.png")
    assert (tmp_path / "gemv.png").read_bytes().startswith(b"\x89PNG")
