"""Where the kernels stand in the code that Inductor writes."""

import re

KERNEL = re.compile(r"^(?P<name>\w+) = async_compile\.(?P<how>\w+)\(")
TRITON = re.compile(r"async_compile\.triton\('(\w+)'")


def kernel_spans(code: list[str]) -> dict[str, dict]:
    """Each kernel of an output code: `language`, and its `first` and `last` line (from 1) within the quotes."""
    spans = {}
    for number, line in enumerate(code, 1):
        if match := KERNEL.match(line):
            last = next(end for end in range(number + 1, len(code) + 1) if code[end - 1].startswith("'''"))
            language = "python" if match["how"] == "triton" else "cpp"
            spans[match["name"]] = {"language": language, "first": number + 1, "last": last - 1}
    return spans


def triton_sources(code: list[str]) -> dict[str, tuple[str, str]]:
    """The Triton kernels of an output code by name: what each is called in its own text, and that text."""
    sources = {}
    for name, span in kernel_spans(code).items():
        if header := TRITON.search(code[span["first"] - 2]):
            text = "\n".join(code[span["first"] - 1 : span["last"]]) + "\n"
            sources[name] = (header[1], text)
    return sources


def code_lines(code: str) -> list[str]:
    """The lines of an output code as all who count them count them."""
    return code.rstrip("\n").split("\n")
