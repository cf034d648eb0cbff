"""What two gloo ranks find: test_safe_distributed.py runs `python safe_ranks.py RANK STORE OUT` for each."""

import json
import logging
import sys
from datetime import timedelta

import torch
import torch.distributed as dist
from safe_models import failing, lying
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from minicompile import CompileConfig, compile_report, maybe_compile
from minicompile.torch_private.dynamo import is_fsdp

logger = logging.getLogger("ranks")


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        return x + self.linear(x).relu()


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def fresh() -> Model:
    torch.compiler.reset()
    torch.manual_seed(0)
    return Model()


def batch_of(rank: int) -> torch.Tensor:
    return torch.randn(4, 8, generator=torch.Generator().manual_seed(rank))


def shard(model: Model) -> Model:
    mesh = init_device_mesh("cpu", (2,))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def losses(model: nn.Module, batch: torch.Tensor) -> list[float]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    found = []
    for _ in range(3):
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        found.append(loss.item())
    return found


def close(ours: list[float], reference: list[float]) -> bool:
    return all(abs(a / b - 1) < 1e-5 for a, b in zip(ours, reference, strict=True))


def state(model: nn.Module) -> dict:
    report = compile_report(model)
    return {"compiled": report.compiled, "stage": report.stage, "reason": report.reason, "modules": report.modules}


def main(rank: int) -> dict:
    batch, found = batch_of(rank), {}

    def config(backend="aot_eager", **fields):
        return CompileConfig(enabled=True, backend=backend, **fields)

    reference = losses(DistributedDataParallel(fresh()), batch)

    model = maybe_compile(fresh(), config(), logger, batch)  # compile, then wrap
    found["ddp"] = state(model)
    found["ddp"]["same"] = close(losses(DistributedDataParallel(model), batch), reference)
    wrapped = DistributedDataParallel(fresh())
    maybe_compile(wrapped, config(), logger, batch)  # given the wrapper, what it wraps is compiled
    found["ddp_wrapped"] = state(wrapped)
    found["ddp_wrapped"]["same"] = close(losses(wrapped, batch), reference)

    for name, backend in {"failing": failing, "lying": lying}.items():
        model = maybe_compile(fresh(), config(backend if rank == 1 else "aot_eager"), logger, batch)
        found[f"ddp_{name}"] = state(model)
        found[f"ddp_{name}"]["same"] = close(losses(DistributedDataParallel(model), batch), reference)

    try:
        maybe_compile(fresh(), config(failing if rank == 1 else "eager", fail_policy="raise"), logger, batch)
    except Exception as error:
        found["raised"] = type(error).__name__

    reference = losses(shard(fresh()), batch)
    for name, backend in {"": None, "_failing": failing, "_lying": lying}.items():
        model = shard(fresh())
        maybe_compile(model, config(backend if backend and rank == 1 else "aot_eager"), logger, batch)
        found[f"fsdp{name}"] = state(model)
        found[f"fsdp{name}"]["wrappers"] = sum(map(is_fsdp, model.modules()))
        found[f"fsdp{name}"]["same"] = close(losses(model, batch), reference)
    return found


if __name__ == "__main__":
    rank, store, out = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{store}", rank=rank, world_size=2, timeout=timedelta(seconds=300))
    with open(out, "w") as file:
        json.dump(main(rank), file)
    dist.destroy_process_group()
