"""Results without this machine's folders: what is published must read the same wherever it was made."""

import re
from functools import lru_cache, partial
from pathlib import Path

import torch

from minicompile.torch_private.names import owner

CUT = "\0"  # stands where a folder was, until all of them are gone


def without_paths(value):
    """The same data without this machine's folders: files of the project, of packages and of caches by their ends."""
    packages, cache = str(Path(torch.__file__).parents[1]), owner("cache_dir").cache_dir()
    folders = [pattern_of(folder) for folder in (cache, packages, str(Path.cwd()))]
    text = lru_cache(None)(partial(cut, folders))  # a stack trace is that of many nodes

    def shortened(item):
        if isinstance(item, str):
            return text(item) if "/" in item else item
        if isinstance(item, dict):
            return {key: shortened(one) for key, one in item.items()}
        if isinstance(item, list | tuple):
            return [shortened(one) for one in item]
        return item

    return shortened(value)


def cut(folders: list[re.Pattern], text: str) -> str:
    """A text without these folders; what is left of a path is not taken for the end of another one."""
    for folder in folders:
        text = folder.sub(CUT, text)
    return text.replace(CUT, "")


@lru_cache(maxsize=64)
def pattern_of(folder: str) -> re.Pattern:
    """What matches a folder at the front of a path, also of one that torch has cut to its last characters."""
    ends = [folder[start:] for start in range(1, len(folder) - len(Path(folder).name))]
    shortened = rf"(?<![\w./{CUT}-])(?:{'|'.join(map(re.escape, ends))})" if ends else r"(?!)"
    return re.compile(rf"(?:{re.escape(folder)}|{shortened})/")
