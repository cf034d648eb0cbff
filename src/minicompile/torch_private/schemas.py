"""What the schema of an operator says of a call: the names of what it is given, and the layouts of its results."""

from typing import Any

import torch
from torch.utils._pytree import tree_map


def named_arguments(operator: Any, args: tuple, kwargs: dict) -> dict[str, Any]:
    """What an operator is given, by the names of its schema."""
    return dict(zip([one.name for one in operator._schema.arguments], args, strict=False)) | kwargs


def without_data(operator: Any, args: tuple, kwargs: dict) -> Any:
    """An operator's results with their dtypes and layouts alone, on the device `meta`."""
    args, kwargs = tree_map(lambda it: it.detach().to("meta") if isinstance(it, torch.Tensor) else it, (args, kwargs))
    return operator(*args, **kwargs)
