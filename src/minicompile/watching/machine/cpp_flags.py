"""How Inductor calls the C++ compiler."""

import shlex
from pathlib import Path

from minicompile.torch_private.names import lookup, owner


def compile_command(source: Path, options: dict) -> list[str] | None:
    """The command that compiles a file to an object beside it as Inductor does; None where torch cannot say.

    Args:
        source: the C++ file.
        options: Inductor's settings that the kernels were written under, such as how wide vectors are.
    """
    build, flags, vectors = lookup("cpp_builder"), lookup("cpp_options"), lookup("pick_vec_isa")
    if not (build and flags and vectors):
        return None
    settings = {name: value for name, value in options.items() if name.startswith("cpp.")}
    with owner("config").patch(settings):
        chosen = flags(vec_isa=vectors(), compile_only=True)
        builder = build(name=source.stem, sources=str(source), BuildOption=chosen, output_dir=str(source.parent))
        return shlex.split(builder.get_command_line())
