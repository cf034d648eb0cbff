"""What captures, and comparisons of them, say by code, worded in a language: `locale/{language}/capture.yaml`."""

from minicompile.explain.evidence import Fact, Kind
from minicompile.lowering.captured import Capture, Coded, Decision, Graph, Runs
from minilab.pages.translations import Translations

# warnings of several kinds: the field that tells which
KINDS = {"no_graph": "direction", "untied": "what", "unseen": "what"}
AT_THE_HEAD = ("untried_torch", "unseen")  # warnings that have to be read before anything else
COUNTED = ("simulated", "real")  # fields that are how many there are of each


def target_of(capture: Capture) -> Coded:
    """What a capture's code was made for, and of what day it is where it was brought back from the record."""
    made: Coded = {"code": capture["target"]["kind"]}
    if capture["target"].get("attention") == "math":
        made["code"] += "_math"
    if capture["target"]["gpu"]:
        made["gpu"] = capture["target"]["gpu"]
    languages = {kernel["language"] for graph in capture.get("graphs", ()) for kernel in graph["kernels"]}
    if made["code"] == "cuda" and "cpp" in languages:
        made["code"] = "cuda_and_cpp"  # a tensor may lie in the host's memory
    if restored := capture.get("restored"):
        code, date = "stale" if restored["stale"] else "restored", capture["provenance"]["date"][:10]
        made = {"code": code, "target": made, "date": date}
    return made


def at_the_head(capture: Capture) -> list[Coded]:
    """The warnings that come before all else: a torch that nobody tried, what the hooks passed over."""
    return [one for one in capture.get("warnings", []) if one["code"] in AT_THE_HEAD]


class Wording:
    """The sentences of one language.

    Args:
        language: en or es.
    """

    def __init__(self, language: str = "en") -> None:
        self._words = Translations("minicompile.explain", "capture", language)

    def _said(self, group: str, coded: Coded, **replaced: object) -> str:
        """The sentence of a code, with its fields, of which some are `replaced`."""
        return self._words(f"{group}.{coded['code']}", **{**coded, **replaced})

    def target(self, target: Coded) -> str:
        """What code was made for, as `target_of` gives it."""
        within = {"target": self.target(target["target"])} if "target" in target else {}
        return self._said("target", target, **within)

    def label(self, capture: Capture) -> str:
        """What a capture's code was made for, to be shown wherever the code is shown."""
        return self.target(target_of(capture))

    def fusion(self, reason: Coded, *, named: bool = True) -> str:
        """Why two scheduler nodes were fused or not: the `reason` of a decision, with its buffers' names or without."""
        names = ", ".join(f"`{buffer}`" for buffer in reason.get("buffers", ()))
        return self._said("fusion", reason, buffers=names if named else self._words("a_buffer"))

    def fusion_of(self, decision: Decision) -> str:
        """What became of a fusion that was considered, and of both sides where it was refused."""
        said = self.fusion(decision["reason"])
        return f"{said} {self._words('joined')}" if decision.get("joined") else said

    def warning(self, warning: Coded) -> str:
        """What a capture lacks: one of its `warnings`."""
        code = warning["code"]
        which = f"{code}_{warning[KINDS[code]]}" if code in KINDS else code
        if code == "untried_torch" and not (warning.get("held") or warning.get("failed")):
            which += "_without_graph"
        fields = {"names": ", ".join(warning.get("names", ()))}
        for side in ("held", "failed"):
            if side in warning:
                told = [self._words(f"invariant.{what}") for what in warning[side]]
                fields[side] = "; ".join(told) or self._words("none")
        return self._said("warning", {**warning, "code": which}, **fields)

    def at_the_head(self, capture: Capture) -> list[str]:
        """What has to be known before anything else is read of a capture."""
        return [self.warning(one) for one in at_the_head(capture)]

    def verified(self, graphs: list[Graph]) -> list[str]:
        """How much of what is told of the kernels is verified; nothing where there are none."""
        total = sum(not call["extern"] for graph in graphs for call in graph["calls"])
        run = [graph["verified"] for graph in graphs if "verified" in graph]
        if not total:
            return []
        if not run:
            return [self._words("verified.unasked")]
        held = sum(one["kernels"][0] for one in run)
        key = "verified.all" if held == total else "verified.some" if held else "verified.none"
        return [self._words(key, count=total, held=held, rest=total - held, inputs=max(one["inputs"] for one in run))]

    def told(self, fact: Fact | None, *, under: Kind = "values", within: bool = False) -> str:
        """A fact in the words of its evidence; nothing for none.

        Args:
            fact: to be told.
            under: what the sentence before, which holds for this one too, already said: notes are named once.
            within: it is a part of a sentence.
        """
        if fact is None:
            return ""
        if fact.evidence == "values" or under == "notes":
            return fact.what
        return self._words("evidence.within" if within else "evidence.notes", said=fact.what)

    def difference(self, why: Coded) -> str:
        """Why a simulated GPU's code is not the real one's: one of `why` in simulated_vs_real.json."""
        sides = {
            side: ", ".join(f"{count} x {target}" for target, count in why[side].items())
            for side in COUNTED if side in why
        }  # fmt: skip
        return self._said("why", why, **sides, kernels=", ".join(why.get("kernels", ())))

    def title(self, title: Coded) -> str:
        """A pane's title; a source's is the path of its file."""
        return title["file"] if title["code"] == "source" else self._said("pane", title)

    def environment(self, what: Coded) -> str:
        """What two captures were made with differently: `what` of an entry of the comparison's `environment`."""
        return self._said("environment", what)

    def value(self, value: Coded | str | None) -> str | None:
        """A value of such an entry; texts stay as they are."""
        return self.target(value) if isinstance(value, dict) else value

    def fate(self, fate: str) -> str:
        """What became of an ATen node's result."""
        return self._words(f"fate.{fate}")

    def inner_graph(self, fact: Coded) -> str:
        """What is to be said of a graph within a graph, as `inner_graphs.told` gives it."""
        return self._said("inner_graph", fact, graphs=", ".join(fact.get("graphs", ())))

    def runs(self, runs: Runs) -> str:
        """How often a call in a graph within a graph runs; nothing where that is once."""
        kind = "_".join(where for where in ("branch", "loop") if runs[where]) or (
            "turned" if runs["turned"] else "region"
        )  # type: ignore[literal-required]
        return (
            self._words(f"runs.{kind}", count=runs["times"])
            if runs["times"] != 1 or kind not in ("region", "turned")
            else ""
        )

    def direction(self, direction: str) -> str:
        """Forward or backward."""
        return self._words(f"direction.{direction}")

    def filters(self) -> dict:
        """All of these by name, for a template."""
        names = (
            "target",
            "warning",
            "label",
            "fusion",
            "difference",
            "title",
            "environment",
            "value",
            "fate",
            "direction",
            "inner_graph",
        )
        return {name: getattr(self, name) for name in names}
