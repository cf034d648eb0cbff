"""The model's sizes, and the name and shape of every parameter array that follows from them."""

from dataclasses import asdict, dataclass

import numpy as np

from minilab import ConfigError, LabError


@dataclass(frozen=True)
class MiniGPTConfig:
    """The model's shape. Raises ConfigError when n_embd is not divisible by n_head or a size is below 1."""

    vocab_size: int
    block_size: int
    n_layer: int = 4
    n_head: int = 4
    n_embd: int = 64

    def __post_init__(self):
        for name, value in asdict(self).items():
            # bool is an int to Python; `n_layer: true` in a YAML file is not one to people
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ConfigError(f"the model's {name} is {value!r}; make it a whole number of at least 1.")
        if self.n_embd % self.n_head:
            raise ConfigError(f"n_embd {self.n_embd} is not divisible by n_head {self.n_head}; change one of the two.")

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every parameter array, in the order of the forward pass."""
        d, v = self.n_embd, self.vocab_size
        shapes: dict[str, tuple[int, ...]] = {"token_embedding": (v, d), "position_embedding": (self.block_size, d)}

        # a bias is as long as its weight has outputs, its first axis
        def add(name: str, *shape: int) -> None:
            shapes[f"{name}.weight"], shapes[f"{name}.bias"] = shape, shape[:1]

        for i in range(self.n_layer):
            add(f"blocks.{i}.ln_1", d)
            add(f"blocks.{i}.attention.qkv", 3 * d, d)
            add(f"blocks.{i}.attention.proj", d, d)
            add(f"blocks.{i}.ln_2", d)
            add(f"blocks.{i}.mlp.fc", 4 * d, d)
            add(f"blocks.{i}.mlp.proj", d, 4 * d)
        add("ln_f", d)
        add("lm_head", v, d)
        return shapes


def check_shapes(arrays: dict[str, np.ndarray], shapes: dict[str, tuple[int, ...]]) -> None:
    """Raise LabError unless `arrays` has exactly the names and shapes of `shapes`."""
    if missing := [name for name in shapes if name not in arrays]:
        raise LabError(f"the array {missing[0]!r} is missing.")
    if extra := [name for name in arrays if name not in shapes]:
        raise LabError(f"the array {extra[0]!r} does not belong to the model.")
    for name, shape in shapes.items():
        if arrays[name].shape != shape:
            raise LabError(f"the array {name!r} has shape {arrays[name].shape} where {shape} is needed.")
