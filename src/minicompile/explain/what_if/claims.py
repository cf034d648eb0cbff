"""What follows from the numbers of a what-if: which way a count went, and what a clock can tell. Plain codes."""

ROWS = ("lines", "kernels", "generated_launches", "library_launches", "bytes", "materialised")


def rows(found: dict) -> list[tuple[str, tuple[int | None, int | None]]]:
    """The counts that are shown, by name, before and after."""
    return [(name, (found["before"]["counts"][name], found["after"]["counts"][name])) for name in ROWS]


def label(found: dict, name: str) -> str:
    """The key of a count's name: bytes are `bytes_at_most` where they are a bound on either side."""
    bound = name == "bytes" and any(found[side]["bytes_at_most"] for side in ("before", "after"))
    return "bytes_at_most" if bound else name


def direction(before: int | None, after: int | None) -> str:
    """`fewer`, `same` or `more`; `unknown` where a side's count is not known."""
    if before is None or after is None:
        return "unknown"
    return "same" if before == after else "more" if after > before else "fewer"


def found_of_time(found: dict) -> str:
    """`faster` or `slower`, of the flipped side; `noise` where the difference is no more than that; `none` untimed."""
    if found["time"] is None:
        return "simulated" if found["target"]["simulated"] else "none"
    return found["time"]["verdict"] or "noise"
