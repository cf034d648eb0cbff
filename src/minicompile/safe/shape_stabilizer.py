"""Pads sequences to a few lengths, so that a model is compiled once for each of them and never again.

Every new shape costs a compile, or a slower graph that takes any shape. Sequences padded to a handful of
lengths ("bucketing", as in T5's and tensor2tensor's input pipelines) cost some arithmetic on padding instead.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from minicompile.safe.compile_config import BucketConfig
from minicompile.torch_private import dynamo as dynamo_internals
from minilab import LabError

IGNORE_INDEX = -100  # the target that F.cross_entropy leaves out of the loss


class ShapeStabilizer:
    """Pads token ids, masks and labels on the right to the next of a few lengths.

    Args:
        buckets: ascending lengths in tokens, or a `BucketConfig`.
        pad_token_id: the id that fills `input_ids`; a `BucketConfig` brings its own.
        ignore_index: the label that fills `labels`.
        truncate: cut what exceeds the last bucket down to it; otherwise that is refused.
        fills: the filling value of further keys of a batch, by key.

    Raises:
        LabError: the buckets or the token cannot be.
    """

    def __init__(
        self,
        buckets: Sequence[int] | BucketConfig = BucketConfig.buckets,
        pad_token_id: int = 0,
        ignore_index: int = IGNORE_INDEX,
        truncate: bool = False,
        fills: Mapping[str, int | float] | None = None,
    ) -> None:
        self.config = buckets if isinstance(buckets, BucketConfig) else BucketConfig(buckets, pad_token_id)
        self.buckets, self.truncate = self.config.buckets, truncate
        self.fills = {
            "input_ids": self.config.pad_token_id,
            "attention_mask": 0,
            "labels": ignore_index,
            "position_ids": 0,
            "token_type_ids": 0,
            **(fills or {}),
        }

    def bucket_for(self, length: int) -> int:
        """Find the shortest bucket that holds `length` tokens.

        Raises:
            LabError: there are no tokens, or more than the last bucket holds and `truncate` is not set.
        """
        if length < 1:
            raise LabError("a sequence of no tokens has no bucket; leave it out of the batch.")
        for bucket in self.buckets:
            if length <= bucket:
                return bucket
        if self.truncate:
            return self.buckets[-1]
        raise LabError(
            f"a sequence of {length} tokens exceeds the last bucket, {self.buckets[-1]}; add a longer bucket, or cut "
            f"sequences there with ShapeStabilizer(..., truncate=True)."
        )

    def bucket_batch(self, input_ids: Tensor | Sequence[Tensor] | Mapping[str, Tensor]):
        """Pad to the next bucket, on the right.

        Args:
            input_ids: token ids (B, T) or (T,), which gives a tensor (B, bucket) or (bucket,); or a list of ids of
                different lengths, or a dictionary with `input_ids` (B, T), either of which gives a dictionary.

        Returns:
            A tensor for a tensor. Else the batch as a dictionary, padded key by key, with `attention_mask` (B, bucket),
            1 at tokens and 0 at padding, made where it was not given, and `lengths` (B,), the tokens of each row.

        Raises:
            LabError: a sequence is empty or too long, or a key of length T has no filling value.
        """
        if isinstance(input_ids, Tensor):
            if input_ids.ndim not in (1, 2):
                raise LabError(f"input_ids has {input_ids.ndim} axes; give it (batch, sequence) or (sequence,).")
            return self._pad(input_ids, self.bucket_for(input_ids.shape[-1]), self.config.pad_token_id)
        if isinstance(input_ids, Mapping):
            return self._bucket_mapping(input_ids)
        return self._bucket_list([torch.as_tensor(row) for row in input_ids])

    def mark_dynamic_dims(self, batch: dict[str, Tensor], dim: int = 1) -> dict[str, Tensor]:
        """Tell the compiler that axis `dim` of every tensor that has it will vary, so that one graph takes all.

        The other way than buckets: slower graphs, fewer of them. Mark the very tensors that go into the compiled
        model, before each call until it has compiled.

        Returns:
            `batch`, marked in place.

        Raises:
            LabError: an axis of 0 or 1, which cannot vary.
            AssertionError: from torch, when called inside compiled code, where it is too late.
        """
        for name, tensor in batch.items():
            if not isinstance(tensor, Tensor) or tensor.ndim <= dim:
                continue
            if tensor.shape[dim] < 2:
                raise LabError(
                    f"axis {dim} of {name!r} has size {tensor.shape[dim]}, which compilers specialise on; mark a batch "
                    f"with at least 2 there."
                )
            dynamo_internals.mark_dynamic(tensor, dim)
        return batch

    @staticmethod
    def unpad(padded: Tensor, lengths: int | Tensor) -> Tensor | list[Tensor]:
        """Take the padding off what came out, (B, bucket, ...): one tensor (B, length, ...) for one length, a list of
        B tensors (length, ...) for the `lengths` (B,) of a batch."""
        if isinstance(lengths, int):
            return padded[:, :lengths]
        return [row[:length] for row, length in zip(padded, lengths.tolist(), strict=True)]

    def _pad(self, tensor: Tensor, bucket: int, fill: int | float) -> Tensor:
        """Pad or cut axis 1 (axis 0 of a vector) to `bucket`, in memory of its own where it changed."""
        axis = min(1, tensor.ndim - 1)
        tensor = tensor.narrow(axis, 0, min(bucket, tensor.shape[axis]))
        missing = bucket - tensor.shape[axis]
        return F.pad(tensor, [0, 0] * (tensor.ndim - 1 - axis) + [0, missing], value=fill) if missing else tensor

    def _bucket_mapping(self, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        if "input_ids" not in batch or batch["input_ids"].ndim != 2:
            raise LabError("the batch has no input_ids of shape (batch, sequence); buckets go by their length.")
        rows, length = batch["input_ids"].shape
        bucket = self.bucket_for(length)
        ids = batch["input_ids"]
        mask = batch.get("attention_mask", torch.ones_like(ids, dtype=torch.int64))
        padded = {}
        for name, value in {**batch, "attention_mask": mask}.items():
            follows = isinstance(value, Tensor) and value.ndim >= 2 and value.shape[1] == length
            if follows and name not in self.fills:
                raise LabError(f"batch[{name!r}] is as long as input_ids but has no filling value; name it in fills.")
            if name in self.fills and not follows:
                raise LabError(f"batch[{name!r}] is not as long as input_ids, (batch, {length}); align the two.")
            padded[name] = self._pad(value, bucket, self.fills[name]) if follows else value
        tokens = padded["attention_mask"] != 0
        last = tokens * torch.arange(1, bucket + 1, device=tokens.device)  # a mask may have holes: the last 1 counts
        padded["lengths"] = last.amax(1) if rows else last.new_zeros(0)
        return padded

    def _bucket_list(self, rows: list[Tensor]) -> dict[str, Tensor]:
        if not rows or any(row.ndim != 1 for row in rows):
            raise LabError("a list of token ids must hold at least one sequence, each with one axis.")
        for row in rows:
            self.bucket_for(len(row))
        bucket = self.bucket_for(max(map(len, rows)))
        ids = torch.stack([self._pad(row, bucket, self.config.pad_token_id) for row in rows])
        lengths = torch.tensor([min(len(row), bucket) for row in rows], device=ids.device)
        mask = torch.arange(bucket, device=ids.device) < lengths[:, None]
        return {"input_ids": ids, "attention_mask": mask.long(), "lengths": lengths}
