"""Digests of what runs: of code without its comments, of data without its layout, of results without their dates.

A better comment, a docstring or another line break leaves a digest as it is; a changed constant, name or operator
changes it. The same file has the same digest under every Python that the lab supports.
"""

import ast
import hashlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import yaml

from minilab.files import digest, read_object, sha256
from minilab.yaml_files import own_yaml

# Comments, white space, and what must not be torn apart: strings, numbers, names, operators of several characters.
# Order matters: a comment before a division, a raw string before a plain one, operators of three signs before two.
CPP_TOKEN = re.compile(
    r"""
    (?P<comment>//(?:\\\n|[^\n])*|/\*.*?\*/)
    |(?P<space>(?:[ \t\r\f\v]|\\\n)+)
    |(?P<line>\n)
    |(?P<token>
        R"(?P<mark>[^\s()\\]{0,16})\(.*?\)(?P=mark)"
        |"(?:\\.|[^"\\\n])*"
        |'(?:\\.|[^'\\\n])*'
        |\.?\d(?:[eEpP][+-]|'?[\w.])*
        |[A-Za-z_]\w*
        |<<=|>>=|<=>|\.\.\.|->\*|::|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|\#\#
        |.
    )
    """,
    re.X | re.S,
)
CPP = {".cu", ".cuh", ".cpp", ".h"}


def digest_of_code(path: str | Path) -> str:
    """SHA-256 of what a source or data file means, as 64 hexadecimal digits.

    Python counts by its syntax tree without docstrings, C++ and CUDA by their tokens without comments, YAML and JSON by
    their values, anything else (and Python that does not parse) by its bytes.
    """
    path = Path(path).absolute()
    state = path.stat()
    return _digest_of_code(path, state.st_mtime_ns, state.st_size)


@cache
def _digest_of_code(path: Path, changed: int, size: int) -> str:
    """`changed` and `size` are of the file, whose digest is worked out anew when either is another."""
    data = path.read_bytes()
    try:
        # the notation of `_python`, and not ast.dump, whose text differs from one Python to the next
        if path.suffix == ".py":
            return _sha256("\n".join(_python(ast.parse(data))))
        if path.suffix in CPP:
            return _sha256("\0".join(_cpp(data.decode())))
        # by its values: another order of keys, a comment or white space is the same configuration
        if path.suffix in (".yaml", ".json"):
            return digest(own_yaml(data))
    except (SyntaxError, UnicodeDecodeError, yaml.YAMLError, TypeError):
        pass  # not what its name says: its bytes are all that is known of it
    return hashlib.sha256(data).hexdigest()


def _sha256(text: str) -> str:
    # a string of Python's may hold half a surrogate pair, which UTF-8 alone refuses
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _python(node: ast.AST) -> Iterator[str]:
    """A syntax tree in a notation that is the same for each version of Python: fields that are empty are left out."""
    yield type(node).__name__
    for name, value in ast.iter_fields(node):
        if name == "body" and isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            value = value[1:] if ast.get_docstring(node, clean=False) is not None else value
            # a body of a docstring alone is that of `pass`
            value = [statement for statement in value if not isinstance(statement, ast.Pass)]
        if isinstance(node, ast.JoinedStr):  # Python 3.12 ends `f"{x:{y}}"` in an empty text, others do not
            value = [part for part in value if not (isinstance(part, ast.Constant) and part.value == "")]
        idle = name in ("ctx", "kind", "type_comment", "type_ignores") or value is None or value == []
        if idle and not (isinstance(node, ast.Constant) and name == "value"):
            continue
        yield f".{name}"
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, ast.AST):
                yield from _python(item)
            else:
                yield f"{type(item).__name__} {item!r}"
    yield "/"


def _cpp(text: str) -> Iterator[str]:
    """The tokens of C++ or CUDA C; a line's end counts only after a directive, which it ends."""
    directive, fresh = False, True
    for found in CPP_TOKEN.finditer(text):
        # a line's end means nothing to C++ but to the preprocessor
        if found["line"] is not None:
            if directive:
                yield "\n"
            directive, fresh = False, True
        elif found["token"] is not None:
            directive = directive or (fresh and found["token"] == "#")
            fresh = False
            yield found["token"]


def digest_of_content(path: str | Path) -> str:
    """SHA-256 of what a result holds: of a JSON artefact the figures, whoever made or restored it; else the bytes."""
    path = Path(path)
    # a picture is its bytes; there are no figures to be told from the rest
    if ".json" not in path.name:
        return sha256(path)
    return digest_of_figures(read_object(path))


def digest_of_figures(artefact: dict) -> str:
    """SHA-256 of an artefact without its provenance and without what restoring it adds."""
    # who measured it and when is no part of what was measured
    held = {name: value for name, value in artefact.items() if name not in ("provenance", "restored")}
    if isinstance(held.get("rows"), list):
        held["rows"] = [
            {name: value for name, value in row.items() if name != "stale"} if isinstance(row, dict) else row
            for row in held["rows"]
        ]
    return digest(held)
