"""Results without this machine's folders and addresses: what is published must read the same wherever it was made."""

import re
from functools import lru_cache
from pathlib import Path

import torch

from minicompile.torch_private.names import owner

# of an object that prints itself, `<code object f at 0x7f...>`, and of a constant at the end of its line in the code
ADDRESS = re.compile(r"(<[^<>]*) at 0x[0-9a-f]+(?=[^<>]*>)|^(\w+ = None  # device\(.*\)) [0-9a-f]+$", re.M)


def without_paths(value, packages_as: str = ""):
    """The same data without this machine's folders: files of the project, of packages and of caches by their ends.

    Nor are there addresses, which are others each time.

    Args:
        value: plain data.
        packages_as: what stands in the place of the folder of packages.
    """
    packages, cache = str(Path(torch.__file__).parents[1]), owner("cache_dir").cache_dir()
    folders, of_packages = pattern_of((cache, packages, str(Path.cwd()))), f"{packages}/"

    @lru_cache(None)  # a stack trace is that of many nodes
    def without_folders(text: str) -> str:
        return folders.sub(lambda found: packages_as if found[0] == of_packages else "", text)

    def shortened(item):
        if isinstance(item, str):
            item = without_folders(item) if "/" in item else item
            return without_addresses(item) if " at 0x" in item or "  # device(" in item else item
        if isinstance(item, dict):
            return {shortened(key): shortened(one) for key, one in item.items()}
        if isinstance(item, list | tuple):
            return [shortened(one) for one in item]
        return item

    return shortened(value)


def without_addresses(text: str) -> str:
    """A text without the addresses of objects that printed themselves in it."""
    return ADDRESS.sub(r"\1\2", text)


@lru_cache
def pattern_of(folders: tuple[str, ...]) -> re.Pattern:
    """What matches these folders at the front of a path, also of one that torch has cut to its last characters."""
    whole = "|".join(re.escape(folder) for folder in folders)
    ends = [folder[start:] for folder in folders for start in range(1, len(folder) - len(Path(folder).name))]
    return re.compile(rf"(?:{whole}|(?<![\w./-])(?:{'|'.join(map(re.escape, ends))}))/")
