"""Syntax highlighting at build time: each line as runs of token classes, so that the page needs no highlighter.

Pygments (pygments.org) reads the languages it knows. It has no lexer for Triton's MLIR and for NVIDIA's SASS, and its
lexer for PTX knows no comments; those below are enough to tell an operation from its operands.
"""

from functools import cache

from pygments.lexer import Lexer, RegexLexer, bygroups, inherit
from pygments.lexers import CppLexer, GasLexer, LlvmLexer, PtxLexer, PythonLexer, TextLexer
from pygments.token import Comment, Keyword, Literal, Name, Number, Operator, String, Text, _TokenType

PLAIN = "x"
# The letters are class names in page/explorer.css; the first that matches is taken.
LETTERS = (
    (Comment.Preproc, "p"),
    (Comment, "c"),
    (Keyword.Type, "t"),
    (Keyword, "k"),
    (String, "s"),
    (Number, "n"),
    (Literal, "s"),
    (Name.Function, "f"),
    (Name.Class, "f"),
    (Name.Decorator, "p"),
    (Name.Builtin, "b"),
    (Name.Label, "p"),
    (Name.Variable, "v"),
    (Operator.Word, "k"),
)


class MlirLexer(RegexLexer):
    """Textual MLIR, as much as Triton's intermediate representation uses."""

    tokens = {  # noqa: RUF012 (the shape that Pygments asks for)
        "root": [
            (r"\s+", Text),
            (r"//.*", Comment),
            (r'"[^"\n]*"', String),
            (r"\bloc\(.*", Comment),
            (r"[%^][\w$.#:]+", Name.Variable),
            (r"[#@!][\w$.]+", Name.Decorator),
            (r"\b(?:bf16|f16|f32|f64|i1|i8|i16|i32|i64|index)\b|\b(?:tensor|x(?=[\d!fi]))", Keyword.Type),
            (r"\b[a-z_]+\.[a-z_.]+\b", Name.Function),
            (r"-?\b\d[\w.+]*", Number),
            (r"\w+|.", Text),
        ]
    }


class CommentedPtxLexer(PtxLexer):
    """Pygments' PTX, with comments."""

    tokens = {"root": [(r"//.*", Comment), inherit]}  # noqa: RUF012


class SassLexer(RegexLexer):
    """NVIDIA's machine code as nvdisasm prints it."""

    tokens = {  # noqa: RUF012
        "root": [
            (r"\s+", Text),
            (r"/\*.*?\*/|//.*", Comment),
            (r"\.L_\w+", Name.Label),
            (r"\.[a-z][\w.]+", Comment.Preproc),
            (r"(@!?U?P\w+)(\s+)([A-Z][\w.]+)", bygroups(Name.Decorator, Text, Name.Function)),
            (r"\b(?:U?R\d+|U?RZ|U?P\d|U?PT|SR_[\w.]+)\b", Name.Variable),
            (r"\b[A-Z][A-Z0-9_]+(?:\.[\w.]+)?\b", Name.Function),
            (r"-?\b(?:0x[\da-f]+|\d[\w.+]*)", Number),
            (r"\w+|.", Text),
        ]
    }


LEXERS = {
    "python": PythonLexer,
    "cpp": CppLexer,
    "text": TextLexer,
    "mlir": MlirLexer,
    "ptx": CommentedPtxLexer,
    "sass": SassLexer,
    "llvm": LlvmLexer,
    "asm": GasLexer,
}


@cache
def _lexer(language: str) -> Lexer:
    return LEXERS[language]()


@cache
def _letter(kind: _TokenType) -> str:
    return next((letter for parent, letter in LETTERS if kind in parent), PLAIN)


def highlight(lines: list[str], language: str) -> list[str]:
    """The token classes of each line: a letter and how many characters it holds for, again and again.

    `k3x1f4` is a keyword of three characters, one of plain text, a function's name of four. Plain text at the end of a
    line is left out. Text stays whole: characters that a lexer would drop are plain.

    Args:
        lines: of one text, so that strings and comments over several lines are seen as such.
        language: a pane's language, or cpp.
    """
    coded: list[list[list]] = [[] for _ in lines]
    at = 0
    # Not get_tokens, which would make a carriage return a new line.
    for _, kind, value in _lexer(language).get_tokens_unprocessed("\n".join([*lines, ""])):
        letter = _letter(kind)
        for position, part in enumerate(value.split("\n")):
            at += position > 0
            if not part or at >= len(coded):
                continue
            if coded[at] and coded[at][-1][0] == letter:
                coded[at][-1][1] += len(part)
            else:
                coded[at].append([letter, len(part)])
    for runs in coded:
        if runs and runs[-1][0] == PLAIN:
            runs.pop()
    return ["".join(f"{letter}{length}" for letter, length in runs) for runs in coded]


@cache
def highlight_line(line: str, language: str) -> str:
    """The token classes of one line of a text in which no token goes over several."""
    return highlight([line], language)[0]
