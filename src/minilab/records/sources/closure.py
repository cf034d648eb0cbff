"""What a script depends on, computed from its text: the modules that it imports, and the data files that they read.

Three things are followed, from module to module:

- imports, those inside functions too;
- names that are resolved by string: a dotted name of a module of the lab, written as one string
  (`"minikernel.proof.proof:prove_kernel"`), counts as an import of it;
- data files: a string that is the path of a file, or a pattern of several, relative to the folder of the module that it
  stands in (`"data/grammar.yaml"`, `"dispatch/*.json"`); of C++ and CUDA sources also what they include;
- words and looks: in a module that uses minilab's translations or templates, a string that is the name of a catalogue
  (`locale/en/NAME.yaml`) or of a template (`templates/NAME.md`) in its folder or the one above; of templates also what
  they include; in any module the name of a file in its `page/`.

A table that names things by string (a dict whose keys are plain strings, as the registry of kernels is) is followed
entry by entry where the caller says which entries it will look up; so an edit of one kernel does not touch the others'
jobs. The table of a package that resolves its public names by string, in `__getattr__`, is followed for the names that
are imported from it. An `__init__` that does nothing else is left out itself, since it computes nothing: another public
name changes no result, and another home of a name that is used is another file.

`minilab` is left out: it moves results about and decides none of them; but the parts of it that give pictures and pages
their looks count.
"""

import ast
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

PLUMBING, LOOKS = "minilab", ("minilab.site", "minilab.pages.style", "minilab.pages.web_page")
WORDS = ("minilab.pages.translations", "minilab.pages.templates")
# package.module, perhaps with :function behind it; at least one dot, or every word would be a module
DOTTED = re.compile(r"([a-z_]\w*(?:\.\w+)+)(?::\w+)?")
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
TEMPLATE = re.compile(r'{%-?\s*(?:include|import|extends|from)\s+(?:twin\()?"(\w+)(?:\.\w+)*"')
DATA = re.compile(r"(?:\.\./)*[\w-][\w./*-]*\.\w+")
PAGE = re.compile(r"\w+")
LONGEST = 200  # characters of a string that can be a path or a module's name
CPP = (".cu", ".cuh", ".cpp", ".h")
LEAVES = {ast.Name, ast.alias, ast.Load, ast.Store, ast.Del, ast.Pass}  # most nodes, under which there is nothing
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass
class Text:
    """What stands in a Python file, or in one entry of a table: imports as (module, name or None), and strings."""

    imports: set[tuple[str, str | None]] = field(default_factory=set)
    strings: set[str] = field(default_factory=set)
    tables: list[dict[str, "Text"]] = field(default_factory=list)


@dataclass(frozen=True)
class Named:
    """The files that a Python file names, each with the name that is imported from it, or None."""

    always: tuple[tuple[str, str | None], ...] = ()
    tables: tuple[dict[str, tuple[tuple[str, str | None], ...]], ...] = ()
    lazy: bool = False  # it resolves names in `__getattr__`, by its tables
    forwards: bool = False  # and does nothing else
    words: bool = False  # it uses minilab's translations or templates


def closure(
    start: str | Path | Iterable[str | Path],
    names: Iterable[str] = (),
    src: str | Path = "src",
    words: bool = True,
) -> list[str]:
    """The files that a script, or several files, depend on, themselves among them.

    Args:
        start: paths of Python, C++ or CUDA files.
        names: what will be looked up in tables; of a table that has one of them as a key, those entries alone count.
        src: the folder of the packages.
        words: whether modules that use minilab's translations or templates count; they word a result for people, and
            so decide no figure of it.

    Returns:
        Paths, sorted; those below the working directory are relative to it.
    """
    here, names, src = os.getcwd(), frozenset(names), os.path.abspath(src)
    starts = [start] if isinstance(start, str | Path) else list(start)
    waiting: list[tuple[str, str | None]] = [(os.path.abspath(path), None) for path in starts]
    seen: set[tuple[str, str | None]] = set()
    while waiting:
        file, asked = waiting.pop()
        # A file is visited once for each name that is asked of it:
        # the table of a package gives other files for another name.
        if (file, asked) in seen or not os.path.isfile(file):
            continue
        state = os.stat(file)
        named = _named_by(file, src, state.st_mtime_ns, state.st_size)
        # A module that words things is left out with all that it imports, if nothing else does.
        if named.words and not words:
            continue
        seen.add((file, asked))
        waiting += named.always
        for table in named.tables:
            # A package's table is followed for what is imported from it; any other one for what the caller looks up, or
            # whole where nothing of it is known to be looked up.
            keys = ({asked or ""} if named.lazy else names) & table.keys()
            for key in keys if named.lazy or keys else table:
                waiting += table[key]
    inits = {(file, asked) for file, asked in seen if file.endswith("__init__.py")}
    files = {file for file, asked in seen if (file, asked) not in inits}
    files |= {file for file, asked in inits if not _only_forwards(file, asked, src)}
    # relative, so that a provenance says the same in every checkout
    return sorted(os.path.relpath(file, here) if file.startswith(here + os.sep) else file for file in files)


def only_forwards(file: str | Path) -> bool:
    """Whether a file is a package's `__init__` that resolves public names in `__getattr__` and does nothing else."""
    path = Path(file)
    return path.name == "__init__.py" and path.is_file() and _forwards(_parsed(path))


def _only_forwards(file: str, asked: str | None, src: str) -> bool:
    """Whether an `__init__` only hands on what is asked of it: nothing, a name of its table, or a module inside."""
    state = os.stat(file)
    named = _named_by(file, src, state.st_mtime_ns, state.st_size)
    inside = Path(file).parent / (asked or "")
    handed_on = inside.exists() or inside.with_suffix(".py").exists() or any(asked in table for table in named.tables)
    return named.forwards and handed_on


def _parsed(path: Path) -> ast.Module:
    """The syntax tree of a Python file, an empty one where it has none: whoever runs the file says what is wrong."""
    try:
        return ast.parse(path.read_bytes())
    except SyntaxError:
        return ast.Module(body=[], type_ignores=[])


def _forwards(tree: ast.Module) -> bool:
    """Whether a module has a `__getattr__`, tables of strings, and nothing that runs besides."""
    defined = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    # whatever else stands on the module's level runs when it is imported, and may decide something
    others = [node for node in tree.body if not isinstance(node, ast.FunctionDef | ast.Import) and not _is_text(node)]
    tables = all(isinstance(node, ast.Assign | ast.AnnAssign) and _is_table(node) for node in others)
    return defined == ["__getattr__"] and tables


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and _is_string(node.value)


def _is_table(node: ast.Assign | ast.AnnAssign) -> bool:
    """Whether strings alone are assigned, or `__all__`."""
    named = any(isinstance(target, ast.Name) and target.id == "__all__" for target in getattr(node, "targets", ()))
    return named or (isinstance(node.value, ast.Dict) and all(map(_is_string, [*node.value.keys, *node.value.values])))


@cache
def _named_by(file: str, src: str, changed: int, size: int) -> Named:
    """What a file names; `changed` and `size` are the file's, which is read anew when either is another."""
    path = Path(file)
    if path.suffix in CPP:
        headers = INCLUDE.findall(path.read_text(errors="replace"))
        return Named(tuple((os.path.normpath(path.parent / name), None) for name in headers))
    if path.suffix == ".md":
        parts = TEMPLATE.findall(path.read_text(errors="replace"))
        return Named(tuple((file, None) for name in parts for file in _words(name, str(path.parent.parent))))
    if path.suffix != ".py":
        return Named()
    text = Text()
    tree = _parsed(path)
    _collect(tree, text)
    lazy = any(isinstance(node, ast.FunctionDef) and node.name == "__getattr__" for node in tree.body)
    worded = any(module in WORDS or name in ("render", "templates") for module, name in text.imports)
    tables = tuple({key: _resolved(part, file, src, worded) for key, part in table.items()} for table in text.tables)
    # a dict of plain words names no file, and is no table to look anything up in
    tables = tuple(table for table in tables if any(table.values()))
    forwards = path.name == "__init__.py" and _forwards(tree)
    return Named(_resolved(text, file, src, worded), tables, lazy, forwards, worded)


def _resolved(text: Text, file: str, src: str, worded: bool) -> tuple[tuple[str, str | None], ...]:
    """The files behind imports and strings of `file`."""
    found: list[tuple[str, str | None]] = []
    folder = os.path.dirname(file)
    for module, name in text.imports:
        found += _modules(module, name, folder, src)
    for string in text.strings:
        # a string such as "minikernel.proof.proof:prove_kernel", which somebody will resolve
        if (dotted := DOTTED.fullmatch(string)) and not _is_plumbing(dotted[1]):
            found += [(path, None) for path in _chain(dotted[1], src, whole=True)]
        found += [(path, None) for path in (_data(string, folder) or (worded and _words(string, folder)) or [])]
    return tuple((os.path.normpath(path), name) for path, name in found)


def _modules(module: str, name: str | None, folder: str, src: str) -> list[tuple[str, str | None]]:
    """The files behind `import module` or `from module import name`: packages run their `__init__` too."""
    if _is_plumbing(module if name is None else f"{module}.{name}"):
        return []
    # the lab's packages, or, for a user's kernel, a module beside the file; in the lab `operator` is Python's
    for root in (src,) if f"{folder}{os.sep}".startswith(f"{src}{os.sep}") else (src, folder):
        if chain := _chain(module, root):
            # the imported name may itself be a module of the package
            inside = _chain(f"{module}.{name}", root, whole=True) if name else []
            return [*((path, None) for path in chain[:-1]), (chain[-1], name), *((path, None) for path in inside[-1:])]
    return []


def _is_plumbing(module: str) -> bool:
    # the plumbing moves results about and decides none, but for what gives pages their looks
    return module.partition(".")[0] == PLUMBING and not any(f"{module}.".startswith(f"{looks}.") for looks in LOOKS)


@cache
def _chain(module: str, root: str, whole: bool = False) -> list[str]:
    """The files that importing a dotted name runs, from the package down; with `whole`, only if the last is there."""
    files: list[str] = []
    path = root
    for depth, part in enumerate(module.split(".")):
        path = os.path.join(path, part)
        file = next((one for one in (f"{path}.py", f"{path}/__init__.py") if os.path.isfile(one)), None)
        if file is None and not os.path.isdir(path):
            return [] if whole or depth == 0 else files
        files += [file] if file else []
    return files


def _data(string: str, folder: str) -> list[str]:
    """The data files that a string names, relative to the folder of its module; none for any other string."""
    # a page of text is no path, and asking the disk for it costs time or fails
    if len(string) > LONGEST:
        return []
    if not DATA.fullmatch(string):
        return []
    if os.path.isfile(page := os.path.join(folder, "page", string)):
        return [page]
    # a pattern counts for all that fits it by now: a new file of the kind is a new dependency
    if "*" in string:
        return sorted(str(path) for path in Path(folder).glob(string) if path.is_file())
    return [file] if os.path.isfile(file := os.path.join(folder, string)) else []


def _words(string: str, folder: str) -> list[str]:
    """The catalogues and templates of a page that a string names, in all languages."""
    if not PAGE.fullmatch(string):
        return []
    return [path for home in (folder, os.path.dirname(folder)) for path in _catalogues(home).get(string, ())]


@cache
def _catalogues(home: str) -> dict[str, list[str]]:
    """The files of words in a folder, by the name that asks for them: NAME.md, NAME.*.md, locale/*/NAME.yaml."""
    found: dict[str, list[str]] = {}
    for path in (*Path(home).glob("templates/*.md"), *Path(home).glob("locale/*/*.yaml")):
        found.setdefault(path.name.partition(".")[0] if path.suffix == ".md" else path.stem, []).append(str(path))
    return found


def _collect(node: ast.AST, text: Text) -> None:
    """Add what stands under a node to `text`: docstrings not, tables apart."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        # most of a tree's nodes, with nothing under them that counts
        if type(node) in LEAVES:
            continue
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str):
                text.strings.add(node.value)
            continue
        docstring = None
        if isinstance(node, ast.Import):
            text.imports |= {(alias.name, None) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            if node.module and not node.level:
                text.imports |= {(node.module, alias.name) for alias in node.names}
        # apart from the rest: which of its entries count is known only when somebody looks one up
        elif isinstance(node, ast.Dict) and node.keys and all(map(_is_string, node.keys)):
            text.tables.append(_table(node))
            continue
        elif isinstance(node, DOCUMENTED) and node.body and _is_text(node.body[0]):
            # a docstring may name files and modules, and reads none
            docstring = node.body[0]
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, list):
                waiting += [child for child in value if isinstance(child, ast.AST) and child is not docstring]
            elif isinstance(value, ast.AST):
                waiting.append(value)


def _table(node: ast.Dict) -> dict[str, Text]:
    """A table by its keys, which are plain strings."""
    table: dict[str, Text] = {}
    for key, value in zip(node.keys, node.values, strict=True):
        part = table[key.value] = Text()  # type: ignore[union-attr]  # a Constant, as was just seen
        _collect(value, part)
        for inner in part.tables:  # a table in a table belongs to its entry
            for one in inner.values():
                part.strings |= one.strings
                part.imports |= one.imports
    return table


def _is_string(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)
