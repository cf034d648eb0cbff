"""Reading the code that Inductor writes: where kernels and operations stand, and what a call is given."""

import re

KERNEL = re.compile(r"^(?P<name>\w+) = async_compile\.(?P<how>\w+)\(")
OPERATION = re.compile(r"^\s+(\w+) = ops\.")
BLOCK = re.compile(r"^\s*def (\w+)\(")
STRUCTURE = re.compile(r"^\s*(?:[{}();]*|//.*|#include.*|\#.*)$")


def kernel_spans(code: list[str]) -> dict[str, dict]:
    """Each kernel of an output code: `language`, and its `first` and `last` line (from 1) within the quotes."""
    spans = {}
    for number, line in enumerate(code, 1):
        if match := KERNEL.match(line):
            last = next(end for end in range(number + 1, len(code) + 1) if code[end - 1].startswith("'''"))
            language = "python" if match["how"] == "triton" else "cpp"
            spans[match["name"]] = {"language": language, "first": number + 1, "last": last - 1}
    return spans


def operation_lines(text: str) -> dict[tuple[str, str], int]:
    """Line (from 0) of each (block, operation) in a scheduler node's printed loop body; the main block is `root`."""
    found, block = {}, "root"
    for number, line in enumerate(text.splitlines()):
        if match := BLOCK.match(line):
            block = "root" if match[1] == "body" else match[1]
        elif match := OPERATION.match(line):
            found.setdefault((block, match[1]), number)
    return found


def arguments(text: str) -> list[str]:
    """Arguments at the top level of a parenthesis."""
    parts, depth, start = [], 0, 0
    for position, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            parts.append(text[start:position].strip())
            start = position + 1
    return [part for part in (*parts, text[start:].strip()) if part]
