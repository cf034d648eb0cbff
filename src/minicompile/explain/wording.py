"""What captures, and comparisons of them, say by code, worded in a language: `locale/{language}/capture.yaml`."""

from minicompile.lowering.captured import Capture, Coded, Warned
from minilab.pages.translations import Translations

KINDS = {"no_graph": "direction", "untied": "what"}  # warnings of several kinds: the field that tells which
COUNTED = ("simulated", "real")  # fields that are how many there are of each


def target_of(capture: Capture) -> Coded:
    """What a capture's code was made for, and of what day it is where it was brought back from the record."""
    made: dict = {"code": capture["target"]["kind"]}
    if capture["target"].get("attention") == "math":
        made["code"] += "_math"
    if capture["target"]["gpu"]:
        made["gpu"] = capture["target"]["gpu"]
    if restored := capture.get("restored"):
        code, date = "stale" if restored["stale"] else "restored", capture["provenance"]["date"][:10]
        made = {"code": code, "target": made, "date": date}
    return made  # type: ignore[return-value]  # its fields are the code's


class Wording:
    """The sentences of one language.

    Args:
        language: en or es.
    """

    def __init__(self, language: str = "en") -> None:
        self._words = Translations("minicompile.explain", "capture", language)

    def target(self, target: Coded) -> str:
        """What code was made for, as `target_of` gives it."""
        fields = _fields(target)
        if "target" in fields:
            fields["target"] = self.target(fields["target"])
        return self._words(f"target.{target['code']}", **fields)

    def label(self, capture: Capture) -> str:
        """What a capture's code was made for, to be shown wherever the code is shown."""
        return self.target(target_of(capture))

    def fusion(self, reason: Coded, *, named: bool = True) -> str:
        """Why two scheduler nodes were fused or not: the `reason` of a decision, with its buffers' names or without."""
        fields = _fields(reason)
        if "buffers" in fields:
            names = ", ".join(f"`{buffer}`" for buffer in fields["buffers"])
            fields["buffers"] = names if named else self._words("a_buffer")
        return self._words(f"fusion.{reason['code']}", **fields)

    def warning(self, warning: Warned) -> str:
        """What a capture lacks: one of its `warnings`."""
        fields = _fields(warning)
        code = warning["code"]
        key = f"{code}_{fields.pop(KINDS[code])}" if code in KINDS else code
        if "names" in fields:
            fields["names"] = ", ".join(fields["names"])
        return self._words(f"warning.{key}", **fields)

    def difference(self, why: Coded) -> str:
        """Why a simulated GPU's code is not the real one's: one of `why` in simulated_vs_real.json."""
        fields = _fields(why)
        for side in COUNTED:
            if side in fields:
                fields[side] = ", ".join(f"{count} x {target}" for target, count in fields[side].items())
        if "kernels" in fields:
            fields["kernels"] = ", ".join(fields["kernels"])
        return self._words(f"why.{why['code']}", **fields)

    def title(self, title: Coded) -> str:
        """A pane's title; a source's is the path of its file."""
        fields = _fields(title)
        return fields["file"] if title["code"] == "source" else self._words(f"pane.{title['code']}", **fields)

    def environment(self, what: Coded) -> str:
        """What two captures were made with differently: `what` of an entry of the comparison's `environment`."""
        return self._words(f"environment.{what['code']}", **_fields(what))

    def value(self, value: Coded | str | None) -> str | None:
        """A value of such an entry; texts stay as they are."""
        return self.target(value) if isinstance(value, dict) else value

    def fate(self, fate: str) -> str:
        """What became of an ATen node's result."""
        return self._words(f"fate.{fate}")

    def direction(self, direction: str) -> str:
        """Forward or backward."""
        return self._words(f"direction.{direction}")

    def filters(self) -> dict:
        """All of these by name, for a template."""
        names = ("target", "label", "fusion", "difference", "title", "environment", "value", "fate", "direction")
        return {name: getattr(self, name) for name in names}


def _fields(coded: Coded) -> dict:
    return {name: value for name, value in coded.items() if name != "code"}
