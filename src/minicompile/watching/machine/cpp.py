"""The instructions that a C++ compiler makes of the kernels, each with the line that it comes from.

A graph's kernels are compiled in one go, with the flags that Inductor compiles with, as the headers take most of a
compile's time. `#line` gives each line its number in the code; `objdump --inlines` names for each instruction the line
that it comes from, and for code out of a header the kernel's line that it was inlined into.
"""

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from minicompile.watching.machine.cpp_flags import compile_command
from minicompile.watching.output_code import code_lines, kernel_spans

Mapped = list[tuple[str, int | None]]  # instructions, each with its line of the code

FILE = "kernels.captured"  # what `#line` calls the code
SECONDS = 300  # that the compiler or objdump may take
SYMBOL = re.compile(r"^[0-9a-f]+ <(kernel_\d+)\b.*>:$")
OTHER_SYMBOL = re.compile(r"^[0-9a-f]+ <.*>:$")
PLACE = re.compile(r"^(?:inlined by )?(\S+):(\d+)(?: \(.*\))?$")
CALLED = re.compile(r"^\s+[0-9a-f]+: R_\w+PLT32\s+(\w+)")  # what a call that is not linked yet will call
INSTRUCTION = re.compile(r"^\s+[0-9a-f]+:\t")


def cpp_instructions(code: str, options: dict) -> dict[str, Mapped]:
    """The instructions of each C++ kernel by name; none without a compiler or objdump.

    Args:
        code: of a graph.
        options: Inductor's settings that it was compiled with.
    """
    lines = code_lines(code)
    names = {f"kernel_{n}": name for n, name in enumerate(kernel_spans(lines))}
    spans = {symbol: kernel_spans(lines)[name] for symbol, name in names.items()}
    kernels = {symbol: span for symbol, span in spans.items() if span["language"] == "cpp"}
    found = instructions(_disassembled(_source(kernels, lines), options)) if kernels else {}
    return {names[symbol]: mapped for symbol, mapped in found.items() if symbol in kernels}


def _source(kernels: dict[str, dict], code: list[str]) -> str:
    """One file of all kernels, each in a namespace of its own, under a name of its own."""
    includes: dict[str, None] = {}
    bodies = []
    for symbol, kernel in kernels.items():
        lines = code[kernel["first"] - 1 : kernel["last"]]
        includes.update({line.strip(): None for line in lines if line.lstrip().startswith("#include")})
        body = "\n".join("" if line.lstrip().startswith("#include") else line for line in lines)
        body = re.sub(r"(extern \"C\".*?)\bkernel\(", rf"\1{symbol}(", body, flags=re.DOTALL)
        bodies.append(f'namespace of_{symbol} {{\n#line {kernel["first"]} "{FILE}"\n{body}\n}}\n')
    return "\n".join([*includes, *bodies])


def _disassembled(source: str, options: dict) -> str:
    """What objdump says of the compiled kernels; empty where they cannot be compiled or objdump is absent."""
    if not shutil.which("objdump"):
        return ""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernels.cpp")
        path.write_text(source)
        command = compile_command(path, options)
        if not command or not shutil.which(command[0]):
            return ""
        shown = ["objdump", "-d", "-r", "-l", "--inlines", "--no-show-raw-insn", "kernels.o"]
        for step in ([*command, "-g1", "-w", "-o", "kernels.o"], shown):
            try:
                done = subprocess.run(step, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=True)
            except (subprocess.SubprocessError, OSError):
                return ""
        return done.stdout


def instructions(listing: str) -> dict[str, Mapped]:
    """The instructions of each kernel in objdump's listing, each with the line of the code pane that it comes from."""
    found: dict[str, Mapped] = {}
    current: Mapped | None = None
    line: int | None = None
    fresh = True  # the next place that is named is of another instruction than the last
    for text in listing.splitlines():
        if symbol := SYMBOL.match(text):
            current = found.setdefault(symbol[1], [])
            current.append((re.sub(r"^[0-9a-f]+ ", "", text), None))
            line, fresh = None, True
        elif OTHER_SYMBOL.match(text):
            current = None
        elif current is not None and INSTRUCTION.match(text):
            current.append((text.strip().replace("\t", "  "), line))
            fresh = True
        elif current and (called := CALLED.match(text)):
            shown, at = current[-1]
            current[-1] = (re.sub(r"\b(call|jmp)\b.*", rf"\1   {called[1]}", shown), at)
        elif place := PLACE.match(text):
            if fresh:
                line, fresh = None, False
            if line is None and Path(place[1]).name == FILE:
                line = int(place[2])
    return found
