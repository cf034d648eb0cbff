"""Compile caches of the job's own, so that nothing compiled earlier can enter a result and no other job is waited for.

By default all jobs of a user share them, on a cluster often over the network; torch's extensions are then built under
a lock that the others wait for, and that a job killed half-way leaves behind.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# torch.compile's kernels lie in Inductor's folder and in Triton's: both are set, or one would be found warm
CACHE_VARIABLES = ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TORCH_EXTENSIONS_DIR", "CUPY_CACHE_DIR")


@contextmanager
def own_caches() -> Iterator[Path]:
    """Point the caches of Triton, Inductor, torch's C++ extensions and CuPy at a fresh temporary folder for the block.

    Enter it before torch, triton or cupy is imported: some read these variables once. On leaving, the
    folder is removed and the variables are what they were.
    """
    before = {name: os.environ.get(name) for name in CACHE_VARIABLES}
    with tempfile.TemporaryDirectory(prefix="caches-") as folder:
        # a folder for each: two compilers must not find each other's files under one name
        for name in CACHE_VARIABLES:
            os.environ[name] = str(Path(folder, name.split("_")[0].lower()))
        try:
            yield Path(folder)
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
