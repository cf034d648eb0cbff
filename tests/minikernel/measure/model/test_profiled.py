"""What the profiler saw: one call out of several, names without C++'s decoration, kernels and the gaps between them."""

import pytest

from minikernel.measure.model import profiled


def calls(*lengths: float) -> list[dict]:
    """Two kernels a call, the second one as long as told, calls 100 us apart; in disorder, as events may come."""
    seen = []
    for number, length in enumerate(lengths):
        seen.append({"name": "b", "start_us": 100.0 * number + 4, "duration_us": length})
        seen.append({"name": "a", "start_us": 100.0 * number, "duration_us": 1.5})
    return seen


def test_the_call_in_the_middle_is_kept_from_its_own_start():
    assert profiled.middle(calls(5, 1, 3, 2, 4)) == [
        {"name": "a", "start_us": 0.0, "duration_us": 1.5},
        {"name": "b", "start_us": 4.0, "duration_us": 3},
    ]


@pytest.mark.parametrize("seen", [[], calls(1, 2, 3), calls(5, 1, 3, 2, 4)[:-1]])
def test_calls_that_differ_are_refused(seen):
    with pytest.raises(ValueError, match=f"the profiler saw {len(seen)} kernels in 5 calls"):
        profiled.middle(seen)


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("triton_per_fused__softmax_3", "triton_per_fused__softmax_3"),
        ("void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(int)",
         "at::native::vectorized_elementwise_kernel"),
        ("void (anonymous namespace)::softmax_warp_forward<float, 10>(float*)", "softmax_warp_forward"),
        ("Memcpy DtoD (Device -> Device)", "Memcpy DtoD "),
        ("x" * 200, "x" * 80),
    ],
)  # fmt: skip
def test_names_are_short(name, short):
    assert profiled.short(name) == short.strip()


def test_what_is_not_in_kernels_lies_between_them():
    parts = profiled.parts_of(kernels_us=60.0, device_us=90.0)
    assert (parts["launches_us"], parts["kernels_us"], parts["waiting_us"]) == (30.0, 60.0, None)
    assert profiled.parts_of(kernels_us=95.0, device_us=90.0)["launches_us"] == 0.0
