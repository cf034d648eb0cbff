"""Compiles the rungs' CUDA C by NVRTC through CuPy: a source with its own headers and with those of all rungs.

A source lies in its rung's room and includes headers of that room and of the one around it; `softmax_cuda.compiled`
does the same for sources whose headers lie beside them.
"""

import functools
import re
from pathlib import Path

from minikernel.ops import softmax_cuda
from minilab import LabError

INCLUDE = re.compile(r'^#include "((?:\.\./)?\w+\.cuh)"$', re.M)


def source(path: Path) -> str:
    """The text of a .cu file with the headers that it includes in place of their includes."""
    # one text, since NVRTC has no folders to look in; each header is included once, by the source
    return INCLUDE.sub(lambda include: (path.parent / include[1]).read_text(), path.read_text())


@functools.cache
def compiled(path: Path, expression: str, device: int):
    """Compile and load the kernel `expression` of a .cu file on CUDA device number `device`: CuPy's handle of it.

    Raises:
        LabError: CuPy is missing.
    """
    try:
        import cupy
    except ImportError:
        raise LabError(
            f"the CUDA C kernel {path.parent.name}/{path.name} needs CuPy, which is not installed; "
            "install the GPU extra with `pip install -e .[gpu]`."
        ) from None
    with cupy.cuda.Device(device):
        module = cupy.RawModule(
            code=source(path), options=softmax_cuda.COMPILER_OPTIONS, backend="nvrtc", name_expressions=(expression,)
        )
        function = module.get_function(expression)
        # The launch asks for most of a multiprocessor's shared memory, above the 48 KB that need no leave.
        function.max_dynamic_shared_size_bytes = softmax_cuda.largest_shared_bytes(device) - function.shared_size_bytes
        if softmax_cuda.limits_of(device).blocks > 1:
            cupy.cuda.driver.funcSetAttribute(function.kernel.ptr, softmax_cuda.NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1)
        return function.kernel
