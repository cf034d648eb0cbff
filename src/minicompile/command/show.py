"""Print the kernels that torch.compile makes of an expression, with what each line does."""

import argparse
import difflib
import math
import os
import re
import sys
import tempfile
import webbrowser
from collections.abc import Callable
from pathlib import Path
from textwrap import shorten

import pygments
import torch
from pygments.formatters import TerminalFormatter
from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, Keyword, Number, String, Token
from torch import Tensor, nn
from torch.nn import functional as F

from minicompile.command import add_target
from minicompile.command.capture import refuse_what_fails_eager, watched_at_command
from minicompile.explain.annotation.annotate import annotate
from minicompile.explain.annotation.choice import views_of
from minicompile.explain.annotation.headline import headline
from minicompile.explain.annotation.lines import COMMENT, commented
from minicompile.explain.explorer import render_explorer
from minicompile.explain.wording import Wording
from minicompile.exploring import made_folder
from minicompile.lowering.capture import as_capture
from minicompile.lowering.captured import Capture
from minicompile.models import SEED, CapturedModel
from minilab import LabError
from minilab.pages.translations import LANGUAGES
from minilab.user_code import first_line

KNOWN = {"torch": torch, "F": F, "nn": nn, "math": math}  # names that an expression may use
DTYPES = {name: value for name, value in vars(torch).items() if isinstance(value, torch.dtype)}
INPUT = re.compile(r"(?P<sizes>scalar|\d+(?:x\d+)*)(?::(?P<dtype>\w+))?", re.ASCII)
COLOURS = {  # in the code as a terminal shows it; what explains it stands out
    Token: ("", ""),
    Comment: ("cyan", "cyan"),
    Comment.Preproc: ("", ""),
    Keyword: ("blue", "blue"),
    String: ("yellow", "yellow"),
    Number: ("magenta", "magenta"),
}
MOST_DIMENSIONS = 64  # that a tensor of torch's may have
PAGE = Path("explored/expression/explorer.html")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "expression", metavar="EXPRESSION", help=f"a function or module, in Python with {', '.join(KNOWN)}"
    )
    parser.add_argument(
        "inputs", nargs="*", metavar="INPUT", help="sizes, and a dtype if not float32: 512x600, 600:bfloat16, scalar"
    )
    add_target(parser)
    parser.add_argument("--open", action="store_true", help=f"write the explorer to {PAGE} and open it in a browser")
    parser.add_argument("--language", choices=LANGUAGES, default="en", help="language of what is said")


def run(arguments: argparse.Namespace) -> None:
    text, wanted = arguments.expression, arguments.open
    if wanted:
        made_folder(PAGE.parent)
    torch.manual_seed(SEED)
    inputs = tuple(_input(one) for one in arguments.inputs)
    with tempfile.TemporaryDirectory() as folder:
        model = CapturedModel(shorten(text, 60, placeholder=" …"), _evaluated(text, Path(folder)), inputs)
        refuse_what_fails_eager(model, "the expression")  # first, since torch.compile logs what it stumbles over
        try:
            watched = watched_at_command(
                model, "the expression", target=arguments.target, name=model.name, machine_code=wanted, assembly=wanted
            )
        except LabError:
            raise
        except Exception as error:
            raise LabError(
                f"torch.compile does not compile the expression, though PyTorch runs it: {first_line(error)}; write it "
                "another way."
            ) from error
    capture = as_capture(watched)
    _print(_told(capture, arguments.language), _language(capture))
    if wanted:
        page = render_explorer(capture, PAGE, language=arguments.language)
        print(page, file=sys.stderr)
        webbrowser.open(page.resolve().as_uri())


def _evaluated(text: str, folder: Path) -> Callable:
    """What an expression gives. It stands in a file while it is compiled: torch reads the source of what it compiles.

    Raises:
        LabError: it is no expression, raises, or gives nothing that can be called.
    """
    file = folder / "expression.py"
    advice = f"write a function of the inputs, lambda x: torch.softmax(x, -1) say, with {', '.join(KNOWN)}."
    try:
        file.write_text(f"{text.strip()}\n")
        made = eval(compile(text.strip(), str(file), "eval"), dict(KNOWN))
    except (Exception, SystemExit) as error:
        raise LabError(f"the expression cannot be evaluated: {first_line(error)}; {advice}") from error
    if not callable(made):
        raise LabError(f"the expression gives a value of type {type(made).__name__} and no function; {advice}")
    return made


def _input(text: str) -> Tensor:
    """A tensor of random numbers, whole ones 1 and 2: both are a place in most tables, and neither divides by zero.

    Raises:
        LabError: the text names no tensor, or one that does not fit into memory.
    """
    named = INPUT.fullmatch(text)
    if named is None:
        raise LabError(
            f"{text!r} is no input; write sizes, and a dtype if it is not float32: 512x600, 600:bfloat16, or scalar."
        )
    name = named["dtype"] or "float32"
    if name not in DTYPES:
        near = difflib.get_close_matches(name, DTYPES, n=1) or ["float32"]
        raise LabError(f"{text!r}: torch has no dtype {name!r}; write {near[0]}, say.")
    dtype, sizes = DTYPES[name], [] if named["sizes"] == "scalar" else [*map(int, named["sizes"].split("x"))]
    if len(sizes) > MOST_DIMENSIONS:
        raise LabError(f"{text!r} has {len(sizes)} dimensions; a tensor has at most {MOST_DIMENSIONS}.")
    bytes_each = max(dtype.itemsize, 8)  # while it is made
    if math.prod(sizes) * bytes_each > os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4:
        raise LabError(f"{text!r} takes more than a quarter of this machine's memory; write smaller sizes.")
    try:
        if dtype.is_floating_point or dtype.is_complex:
            return torch.randn(sizes, dtype=torch.complex64 if dtype.is_complex else torch.float32).to(dtype)
        return torch.randint(0 if dtype == torch.bool else 1, 2 if dtype == torch.bool else 3, sizes).to(dtype)
    except (RuntimeError, TypeError, NotImplementedError) as error:
        raise LabError(f"{text!r}: torch makes no such tensor: {first_line(error)}; write another dtype.") from error


def _told(capture: Capture, language: str) -> list[str]:
    """Each kernel under its name and what it computes, each call of a library's; where no kernel is, why."""
    views = views_of(capture, language)
    if not views:
        return [annotate(capture, language).strip()]
    wording, words = Wording(language), views[0].words
    mark = COMMENT[_language(capture)]
    told = [f"{mark} {wording.label(capture)}", *(f"{mark} {one}" for one in wording.at_the_head(capture))]
    told += [f"{mark} {one}" for one in wording.verified(capture["graphs"])]
    by_call = {view.call["id"]: view for view in views}
    shown = set()
    for call in (call for graph in capture["graphs"] for call in graph["calls"]):
        if (view := by_call.get(call["id"])) is None:
            nodes = ", ".join(call["aten_nodes"])
            told += ["", f"{mark} {words('library', call=call['kernel'], nodes=nodes)}"]
        elif call["kernel"] not in shown:
            shown.add(call["kernel"])
            whole = None if call.get("doubted") else headline(view)
            told += [
                "",
                f"{mark} {call['kernel']}",
                *([f"{mark} {view.told(whole)}"] if whole else []),
                *commented(view),
            ]
    return told


def _language(capture: Capture) -> str:
    return "cpp" if capture["target"]["kind"] == "cpu" else "python"


def _print(lines: list[str], language: str) -> None:
    """Print code; a terminal that somebody looks at gets it in colours (no-color.org)."""
    text = "\n".join(lines) + "\n"
    if sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb":
        text = pygments.highlight(text, get_lexer_by_name(language), TerminalFormatter(colorscheme=COLOURS))
    print(text, end="")
