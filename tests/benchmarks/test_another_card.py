"""What is printed of a card beside a recorded one; nothing is timed here."""

from types import SimpleNamespace

import another_card
import pytest
import torch


def test_a_card_that_copies_half_as_much_is_told_kernel_by_kernel(monkeypatch: pytest.MonkeyPatch, capsys):
    recorded = another_card.card_of(another_card.ROOT / "results/recorded/h200/24", another_card.HEADLINE)
    times = {name: one["us"] for name, one in recorded["kernels"].items()}
    here = {"naive": 2 * times["naive"], "smem": times["smem"], "warp": 1190.0, "F.softmax": 1.0}
    found = SimpleNamespace(
        rows={name: {"median_us": us} for name, us in here.items()},
        panel={"ceilings": {"copy_gb_per_s": recorded["copy_gb_per_s"] / 2}},
    )
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(another_card, "roofline", lambda asked, shape: found)
    monkeypatch.setattr(another_card, "nvidia_smi", lambda: [{"clocks.max.sm": "1980 MHz"}])
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda n: SimpleNamespace(multi_processor_count=132))
    assert another_card.main([]) == 0
    copy, _, *lines = capsys.readouterr().out.splitlines()
    assert copy == "a copy: 2,123 GB/s here, 4,246 on NVIDIA H200"
    assert [(line.split()[0], line.split()[-1]) for line in lines] == [
        ("naive", "memory"),
        ("smem", "multiprocessors"),
        ("warp", "multiprocessors"),
    ]


def test_without_a_gpu_or_a_record_it_says_so(monkeypatch: pytest.MonkeyPatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert another_card.main([]) == 1
    assert "need a CUDA device" in capsys.readouterr().err
    assert another_card.main(["geforce-gtx-9999"]) == 1
    assert "there is no record of geforce-gtx-9999" in capsys.readouterr().err
