"""Takes training steps: forward, loss, backward, `optimizer.step`, `zero_grad`; with the numbers that each leaves."""

import contextlib
import copy
import inspect
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from minicompile.safe.installation import eager_calls
from minicompile.safe.smoketest.outputs import BATCH, Reading, Step, shapes_of, unused_by
from minicompile.safe.smoketest.rewind import passes_taken_back
from minicompile.state.batches import call_loss, copied_batch, parameters_of, split_batch, storages_of, tensors_of
from minicompile.state.frozen_state import RandomState
from minicompile.state.reach import walk
from minicompile.torch_private.tensors import tree_map
from minilab import LabError

Say = Callable[[str], None]  # told the stage of a step that begins


def say_nothing(stage: str) -> None:
    pass


class Subject:
    """A model with all that a training step of it takes.

    A model in `eval()` without optimizer or loss_fn, or with nothing to train, is only called, in the grad mode that is
    set. Where it is trained and no optimizer is given, plain SGD trains it.
    """

    def __init__(
        self, model: nn.Module, batch: Any, optimizer: torch.optim.Optimizer | None, loss_fn: Callable | None
    ) -> None:
        self.model, self.batch, self.loss_fn, self.given_optimizer = model, batch, loss_fn, optimizer
        trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.trains = bool(trainable) and (model.training or optimizer is not None or loss_fn is not None)
        self.compiles_itself = False  # operations of its own do, `torch.cond` say, which no stance may keep from it
        self._leaves: list[Tensor] | None = None
        self._elsewhere: frozenset[tuple[str, int]] = frozenset()
        plain = optimizer is None and self.trains
        self.optimizer = torch.optim.SGD(trainable, lr=1e-2) if plain else optimizer if self.trains else None

    def tried_on(self) -> dict[str, str]:
        """Dtype and shape of each tensor of the batch that a step uses, by name."""
        try:
            arguments, keywords, _ = split_batch(self.model, self.batch)
        except LabError:  # an empty one, which a step refuses
            return {}
        apart = self.loss_fn is None and not (len(arguments) == 1 and arguments[0] is self.batch)
        used = {f"[{number}]": one for number, one in enumerate(arguments)} if apart else {"": self.batch}
        used |= {f"[{key!r}]": one for key, one in keywords.items()} if apart else {}
        return {name: shape for place, one in used.items() for name, shape in shapes_of(one, f"batch{place}").items()}

    def copy(self) -> "Subject":
        """The same steps of a model and a loss of its own, which may be spoiled. The optimizer takes no part in them.

        Raises:
            Exception: whatever a part raises that cannot be copied.
        """
        model, loss_fn = copy.deepcopy((self.model, self.loss_fn))
        other = Subject(model, self.batch, None, loss_fn)
        other.trains, other.compiles_itself = self.trains, self.compiles_itself
        return other

    def grad_mode(self):
        """The context in which its steps are taken."""
        return torch.enable_grad() if self.trains else nullcontext()

    def parameters(self) -> dict[str, nn.Parameter]:
        """Every parameter of the model, and those beyond it that the optimizer trains."""
        named = dict(self.model.named_parameters())
        known = {id(parameter) for parameter in named.values()}
        groups = self.optimizer.param_groups if self.optimizer is not None else []
        beyond = [p for group in groups for p in group["params"] if id(p) not in known]
        return named | {f"parameter {number} beyond the model": p for number, p in enumerate(beyond)}

    def drop_gradients(self) -> None:
        """Begin without gradients: those that the caller has accumulated are no part of a step."""
        if self._leaves is None:
            found = walk({"model": self.model, "loss": self.loss_fn, "batch": self.batch})
            self._leaves = [value for _, value in found if isinstance(value, Tensor) and value.is_leaf]
            self._elsewhere = storages_of(self.model, self.loss_fn)
        for tensor in (*self._leaves, *self.parameters().values()):
            tensor.grad = None

    def step(self, say: Say = say_nothing, read: bool = False, like: Step | None = None) -> Step | None:
        """Run forward, and backward where there is something to differentiate; gradients are left where they landed.

        Args:
            read: whether what it leaves behind is read.
            like: eager's step, to which it will be held; None for eager's own.

        Returns:
            What it left behind, where that is to be read.
        """
        torch.compiler.cudagraph_mark_step_begin()  # what the last step returned has been read
        torch.clear_autocast_cache()  # within one autocast of the caller's, it would keep weights from before a step
        self.drop_gradients()
        batch = copied_batch(self.batch, self._elsewhere)
        arguments, keywords, target = split_batch(self.model, batch)
        roots = {"": self.model, "loss_fn": self.loss_fn, BATCH: batch}
        reading = Reading(self.parameters(), dict(self.model.named_buffers()), roots, like) if read else None
        say("forward")
        # Where no stance makes it eager, a wrapper of torch.compile's is passed over.
        model = (
            getattr(self.model, "_orig_mod", self.model)
            if read and like is None and self.compiles_itself
            else self.model
        )
        output = model(*arguments, **keywords)
        loss = None
        if self.trains:
            say("loss")
            loss = call_loss(self.loss_fn, output, target)
            _refuse_what_is_no_loss(loss)
        elif self.asks_for_gradients():
            loss = _differentiable(output)
        unused = [] if loss is None or reading is None else unused_by(loss, output)
        if loss is not None:
            say("backward")
            loss.backward()
        return None if reading is None else reading.read(output, loss, unused)

    def asks_for_gradients(self) -> bool:
        """Whether a call of a model that is not trained has something to differentiate: in the batch, say."""
        if not torch.is_grad_enabled():
            return False
        own = {id(parameter) for parameter in self.model.parameters()}
        return any(tensor.requires_grad and id(tensor) not in own for tensor in self._leaves or ())

    def train(self, say: Say = say_nothing) -> None:
        """Have the optimizer apply the gradients, and drop them."""
        if self.optimizer is not None:
            say("optimizer")
            asked = [parameter.default for parameter in parameters_of(self.optimizer.step)]
            if asked[:1] == [inspect.Parameter.empty]:  # LBFGS and its like evaluate the loss themselves
                self.optimizer.step(self._loss_again)
            else:
                self.optimizer.step()
            self.optimizer.zero_grad()

    def _loss_again(self) -> float:
        self.drop_gradients()
        with torch.enable_grad():
            step = self.step(read=True)
        return float("nan") if step is None or step.loss is None else step.loss.item()

    def eager_step(self, then_train: bool) -> tuple[Step, bool]:
        """Take one step as if nothing were compiled; return a copy of it, and whether torch drew random numbers."""
        generators = RandomState()
        with eager_calls(self.model) if self.compiles_itself else torch.compiler.set_stance("force_eager"):
            step = self.step(read=True)
            assert step is not None
            step = step.copy()
            drawn = generators.torch_has_drawn()
            if then_train:
                self.train()
        return step, drawn

    def eager_step_taken_back(self) -> tuple[Step, bool]:
        """Take an eager step without the optimizer's part, and put back what it has changed.

        Raises:
            CannotRestore: of what could not be put back.
        """
        with passes_taken_back(self.optimizer, self.model, self.loss_fn, self.batch):
            eager = self.eager_step(then_train=False)
            self.drop_gradients()
        return eager

    def nudge(self, share: float) -> None:
        """Make every parameter larger by a share of itself."""
        with torch.no_grad():
            for parameter in filter(torch.is_floating_point, self.model.parameters()):
                parameter.mul_(1 + share)

    def finer_step(self, dtype: torch.dtype = torch.float32) -> Step:
        """Take the eager step in float32 or float64. The model stays in it: for a process that ends after it."""
        for module in (self.model, self.loss_fn):
            if isinstance(module, nn.Module):
                module.to(dtype)
        coarser = (torch.float16, torch.bfloat16) if dtype == torch.float32 else (torch.float32,)
        self.batch = tree_map(partial(_finer, dtype=dtype, coarser=coarser), self.batch)
        if dtype == torch.float32:
            torch.backends.cuda.matmul.allow_tf32 = False
        with contextlib.ExitStack() as stack:
            for device in filter(torch.amp.is_autocast_available, {p.device.type for p in self.model.parameters()}):
                stack.enter_context(torch.autocast(device, enabled=False))
            return self.eager_step(then_train=False)[0]


def _refuse_what_is_no_loss(loss: Any) -> None:
    """Refuse what has no backward pass of its own. Raises `LabError`."""
    if not isinstance(loss, Tensor):
        raise LabError(f"the loss is of type {type(loss).__name__}; return a tensor of one number from loss_fn.")
    if loss.numel() != 1:
        raise LabError(f"the loss has the shape {list(loss.shape)} and must be one number; take its mean, say.")
    if not loss.requires_grad:
        raise LabError("the loss does not depend on what is trained, or was detached; return one that does.")


def _differentiable(output: Any) -> Tensor | None:
    """A number to differentiate an output by; None where there is none."""
    found = [tensor for _, tensor in tensors_of(output) if tensor.is_floating_point() and tensor.requires_grad]
    return torch.stack([tensor.float().square().mean() for tensor in found]).sum() if found else None


def _finer(value: Any, dtype: torch.dtype, coarser: tuple[torch.dtype, ...]) -> Any:
    return value.to(dtype) if isinstance(value, Tensor) and value.dtype in coarser else value
