"""Inductor's settings as torch has them where nobody sets any."""

import re
import sys
from typing import Any

from minicompile.torch_private.names import owner

ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def entries() -> dict[str, Any]:
    """Each setting of Inductor's by its name, `triton.nested_reduction` say; one that stands for another is none."""
    held = owner("settings")._config
    return {name: entry for name, entry in held.items() if entry.alias is None}


def defaults() -> dict[str, str]:
    """What each setting is where nobody sets it, as Python writes it, without this environment's paths."""
    texts = {name: repr(entry.default) for name, entry in entries().items() if not callable(entry.default)}
    return {name: ADDRESS.sub("", text).replace(sys.prefix, "...") for name, text in texts.items()}
