"""Buckets: right padding to fixed lengths, nothing cut unsaid, as many graphs as buckets and then none."""

import logging

import pytest
import torch
from safe_models import minigpt
from torch.nn import functional as F

from minicompile import BucketConfig, CompileConfig, ShapeStabilizer, compile_report, maybe_compile
from minilab import LabError

pytestmark = pytest.mark.usefixtures("fresh_compiler")


@pytest.mark.parametrize(("length", "bucket"), [(1, 4), (3, 4), (4, 4), (5, 8), (8, 8), (9, 16), (16, 16)])
def test_pads_right_to_the_next_bucket(length, bucket):
    ids = torch.arange(1, 2 * length + 1).reshape(2, length)
    padded = ShapeStabilizer(buckets=(4, 8, 16), pad_token_id=9).bucket_batch(ids)
    assert padded.shape == (2, bucket)
    assert padded.dtype == ids.dtype
    assert torch.equal(padded[:, :length], ids)
    assert (padded[:, length:] == 9).all()


def test_takes_a_config_and_a_single_sequence():
    stabilizer = ShapeStabilizer(BucketConfig(buckets=(4, 8), pad_token_id=7))
    assert stabilizer.bucket_batch(torch.tensor([1, 2, 3, 4, 5])).tolist() == [1, 2, 3, 4, 5, 7, 7, 7]


def test_the_defaults_are_the_contract_s():
    assert ShapeStabilizer().buckets == (256, 512, 1024, 2048)


def test_what_exceeds_the_last_bucket_is_refused_or_cut_when_told():
    ids = torch.arange(10).reshape(1, 10)
    with pytest.raises(LabError, match="10 tokens exceeds the last bucket, 8"):
        ShapeStabilizer((4, 8)).bucket_batch(ids)
    assert ShapeStabilizer((4, 8), truncate=True).bucket_batch(ids).tolist() == [list(range(8))]


@pytest.mark.parametrize("ids", [torch.ones(2, 0, dtype=torch.int64), torch.ones(1, 2, 3), [], [torch.ones(2, 2)]])
def test_what_is_no_batch_of_tokens_is_refused(ids):
    with pytest.raises(LabError):
        ShapeStabilizer((4, 8)).bucket_batch(ids)


def test_a_dictionary_is_padded_key_by_key():
    batch = {
        "input_ids": torch.tensor([[1, 2, 3], [4, 5, 0]]),
        "attention_mask": torch.tensor([[1, 1, 1], [1, 1, 0]]),
        "labels": torch.tensor([[2, 3, 4], [5, 6, -100]]),
        "weights": torch.ones(2),
        "name": "kept",
    }
    padded = ShapeStabilizer((4, 8), pad_token_id=9).bucket_batch(batch)
    assert padded["input_ids"].tolist() == [[1, 2, 3, 9], [4, 5, 0, 9]]
    assert padded["attention_mask"].tolist() == [[1, 1, 1, 0], [1, 1, 0, 0]]
    assert padded["labels"].tolist() == [[2, 3, 4, -100], [5, 6, -100, -100]]
    assert padded["lengths"].tolist() == [3, 2]
    assert padded["weights"] is batch["weights"]
    assert padded["name"] == "kept"
    assert batch["input_ids"].shape == (2, 3)  # the caller's batch is left alone


def test_a_mask_is_made_where_none_was_given():
    padded = ShapeStabilizer((4,)).bucket_batch({"input_ids": torch.tensor([[0, 0]])})
    assert padded["attention_mask"].tolist() == [[1, 1, 0, 0]]


def test_further_keys_need_a_filling_value():
    batch = {"input_ids": torch.ones(1, 3, dtype=torch.int64), "scores": torch.ones(1, 3, 2)}
    with pytest.raises(LabError, match=r"'scores'.*name it in fills"):
        ShapeStabilizer((4,)).bucket_batch(batch)
    padded = ShapeStabilizer((4,), fills={"scores": -1.0}).bucket_batch(batch)
    assert padded["scores"].shape == (1, 4, 2)
    assert (padded["scores"][:, 3] == -1).all()


def test_labels_of_another_length_are_refused():
    batch = {"input_ids": torch.ones(1, 3, dtype=torch.int64), "labels": torch.ones(1, 2, dtype=torch.int64)}
    with pytest.raises(LabError, match="not as long as input_ids"):
        ShapeStabilizer((4,)).bucket_batch(batch)


def test_rows_of_different_lengths_and_back():
    rows = [torch.tensor([1, 2, 3, 4, 5]), torch.tensor([6])]
    stabilizer = ShapeStabilizer((4, 8))
    padded = stabilizer.bucket_batch(rows)
    assert padded["input_ids"].shape == (2, 8)
    for row, back in zip(rows, stabilizer.unpad(padded["input_ids"], padded["lengths"]), strict=True):
        assert torch.equal(row, back)
    assert stabilizer.unpad(padded["input_ids"], 5).shape == (2, 5)


def test_padding_changes_neither_logits_nor_loss():
    model, stabilizer = minigpt(), ShapeStabilizer((8, 16))
    ids, labels = torch.arange(10).reshape(2, 5), torch.arange(3, 13).reshape(2, 5)
    batch = stabilizer.bucket_batch({"input_ids": ids, "labels": labels})
    logits = model(batch["input_ids"])
    torch.testing.assert_close(stabilizer.unpad(logits, 5), model(ids))
    loss = F.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten())
    torch.testing.assert_close(loss, F.cross_entropy(model(ids).flatten(0, 1), labels.flatten()))


def test_as_many_graphs_as_buckets_and_then_none():
    stabilizer = ShapeStabilizer((4, 8, 16))
    lengths = (3, 4, 6, 8, 12, 16)
    model = minigpt()
    cfg = CompileConfig(enabled=True, backend="eager", dynamic=False)
    maybe_compile(model, cfg, logging.getLogger(), stabilizer.bucket_batch(torch.ones(2, 4, dtype=torch.int64)))
    for _ in range(2):
        for length in lengths:
            model(stabilizer.bucket_batch(torch.ones(2, length, dtype=torch.int64)))
        assert compile_report(model).graphs == len(stabilizer.buckets)
        assert len(compile_report(model).recompiles) == len(stabilizer.buckets) - 1
    with torch.compiler.set_stance("fail_on_recompile"):
        for length in lengths:
            model(stabilizer.bucket_batch(torch.ones(2, length, dtype=torch.int64)))


def test_marked_dimensions_give_one_graph_for_all_lengths():
    stabilizer, model = ShapeStabilizer((4, 8, 16)), minigpt()
    sample = {"ids": torch.ones(2, 4, dtype=torch.int64)}
    assert stabilizer.mark_dynamic_dims(sample) is sample
    maybe_compile(model, CompileConfig(enabled=True, backend="eager"), logging.getLogger(), sample)
    for length in (5, 9, 15):
        model(torch.ones(2, length, dtype=torch.int64))
    report = compile_report(model)
    assert (report.graphs, report.recompiles) == (1, []), report.recompiles


def test_marking_is_refused_inside_compiled_code_and_for_sizes_that_cannot_vary():
    stabilizer = ShapeStabilizer((4,))
    with pytest.raises(LabError, match="has size 1"):
        stabilizer.mark_dynamic_dims({"ids": torch.ones(2, 1)})

    @torch.compile(backend="eager")
    def late(x):
        stabilizer.mark_dynamic_dims({"x": x})
        return x + 1

    with pytest.raises(AssertionError, match="mark_dynamic"):
        late(torch.ones(2, 3))
