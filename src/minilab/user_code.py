"""Loads a function out of a user's own Python file, and says in one sentence why it cannot."""

import importlib.util
import inspect
import re
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from types import ModuleType

from minilab.errors import LabError
from minilab.pages.translations import Translations
from minilab.user_files import enter_folder_of, loader

LONGEST = 400  # characters of what somebody's code raised
IMPORTED: dict[Path, tuple[bytes, ModuleType]] = {}  # file -> its text and its module, the last one
GOT = re.compile(r"\bgot (\w+)\((['\"])(.{1,4000})\2\)$", re.M)


class UserCodeError(LabError):
    """A user's file that cannot be used.

    Attributes:
        reason: {"code", "kind", "name", "source", ...}: a key of `locale/*/user_code.yaml` and its fields, as an
            artefact may hold it. The exception's own text is that key's English sentence.
    """

    def __init__(self, code: str, **fields: str) -> None:
        self.reason = {"code": code, **fields}
        super().__init__(Translations("minilab", "user_code")(code, **fields))


def load_function(kind: str, name: str, source: str | Path, function: str) -> Callable:
    """Import a user's file and return a function of it.

    The file finds what lies beside it, as under `python FILE`; `from .helpers import` does as well.

    A file of models is imported once in a process for as long as it stays the same: torch takes an operator's memory
    away when the same operator is defined again. A kernel has an import of its own, because it is judged by itself.

    Args:
        kind: what the configuration calls such a thing: `kernel` or `model`.
        name: its name in the configuration, for messages.
        source: path of the file.
        function: name of the function in it.

    Raises:
        UserCodeError: the file is missing, cannot be imported, or defines no such function; of a model also when the
            function, which is called once to make it, raises.
    """
    about = {"kind": kind, "name": name, "source": str(source)}
    if not Path(source).is_file():
        raise UserCodeError("no_file", **about)
    module_name = module_of(kind, name)
    if Path(source).suffix != ".py":
        raise UserCodeError("not_python", **about)
    file = Path(source).resolve()
    # As if it were the package of its folder: `.helpers` then means the file beside it.
    spec = importlib.util.spec_from_file_location(
        module_name, source, loader=loader(module_name, source), submodule_search_locations=[str(file.parent)]
    )
    assert spec is not None
    assert spec.loader is not None
    enter_folder_of(file)
    try:
        text = file.read_bytes()
        known, module = IMPORTED.get(file, (b"", None))
        if module is None or known != text or kind == "kernel":
            module = sys.modules[module_name] = importlib.util.module_from_spec(
                spec
            )  # dataclasses and pickles look there
            spec.loader.exec_module(module)
            IMPORTED[file] = text, module
    except (Exception, SystemExit) as error:
        raise _not_importable(error, about, module_name, str(file.parent)) from error
    sys.modules[module_name] = module
    if not callable(getattr(module, function, None)):
        defined = [key for key, value in vars(module).items() if inspect.isfunction(value)]
        raise UserCodeError("no_function", **about, function=function, defined=", ".join(defined) or "–")
    found = getattr(module, function)
    return _factory(found, {**about, "function": function}, file) if kind == "model" else found


def _not_importable(error: BaseException, about: dict[str, str], module: str, folder: str) -> UserCodeError:
    """Why a file cannot be imported: of a module that is not found, where it was looked for."""
    own = f"{module}."  # the name of the file's folder, as a package
    if isinstance(error, ModuleNotFoundError) and error.name:
        missing = error.name.replace(own, ".") if error.name.startswith(own) else error.name
        return UserCodeError("no_module", **about, module=printable(missing), folder=folder)
    if isinstance(error, ImportError) and "beyond top-level package" in str(error):
        return UserCodeError("above_folder", **about, folder=folder)
    return UserCodeError("not_importable", **about, raised=first_line(error))


def _factory(function: Callable, about: dict[str, str], file: Path) -> Callable:
    """The function, with what lies beside its file, and what it raises as a sentence."""

    @wraps(function)
    def made() -> object:
        enter_folder_of(file)  # that of another model may have come between
        try:
            return function()
        except (Exception, SystemExit) as error:
            raise UserCodeError("not_made", **about, raised=first_line(error)) from error

    return made


def module_of(kind: str, name: str) -> str:
    """The name under which `load_function` imports a user's file."""
    # a dot would name a package that is not there
    return f"user_{kind}_{name}".replace(".", "_")


def first_line(failure: BaseException) -> str:
    """What somebody's code raised, in one line of at most `LONGEST` characters: many messages run to many lines.

    Triton's compiler puts the place first and the reason last; its interpreter wraps the reason, once a call; Dynamo
    says first what it was doing, and then what it got.
    """
    while type(failure).__name__ == "InterpreterError" and failure.__cause__ is not None:
        failure = failure.__cause__
    try:
        text = str(failure)
    except Exception:  # its own, of a class of somebody's
        text = ""
    if type(failure).__name__ == "TorchRuntimeError" and (got := GOT.search(text[: 100 * LONGEST])):
        return printable(f"{got[1]}: {got[3]}").removesuffix(".")
    name = type(failure).__name__
    lines = f"{name}: {text}".strip().splitlines() if text.strip() else [name]
    if type(failure).__name__ == "CompilationError" and len(lines) > 1:
        lines[0] += f" {lines[-1].strip()}"
    return printable(lines[0]).removesuffix(".")


def printable(text: str) -> str:
    """At most `LONGEST` characters of a text, none of which moves a cursor or cannot be written as UTF-8."""
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in text[:LONGEST])
