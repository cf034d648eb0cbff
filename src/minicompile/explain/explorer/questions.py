"""Questions that a capture answers, each with the line at which the explorer opens on the answer.

They are asked of what is in the capture, so that any model has its own: how many kernels there are and why not fewer,
which line of the source ends in several, which two loops were not fused, what no kernel writes, which configuration
the clock chose. What a capture has nothing for is not asked.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from minicompile.explain.evidence import Fact, Kind, of_call, of_fate, weakest
from minicompile.explain.explorer.links import Line, Links
from minicompile.explain.wording import Wording
from minicompile.lowering.by_values import computed
from minicompile.lowering.captured import DTYPE_VIEW, Call, Capture, Coded, Decision, Node
from minilab.pages.translations import Translations

MOST = 4  # questions of a capture
UNGIVEN = "ungiven"  # the code of a refusal for which Inductor gives no reason
WRITTEN_FOR = ("inlined", "fused away")  # fates of a result that no kernel stores


class Question(NamedTuple):
    """A question, its answer, and where the explorer shows it.

    Attributes:
        name: what the address of the explorer names it by.
        question, answer: in words; `backquotes` mark code.
        pane, line: where the explorer opens.
    """

    name: str
    question: str
    answer: str
    pane: str
    line: int


class _Asker:
    """Asks about the first graph of a capture."""

    def __init__(self, capture: Capture, language: str) -> None:
        self.capture, self.graph = capture, capture["graphs"][0]
        self.text = Translations("minicompile.explain", "questions", language)
        self.wording = Wording(language)
        self.told: Coded | None = None  # of a refusal, in an answer
        self.at = {node["name"]: node["lines"]["groups"] for node in self.graph["scheduler_nodes"]}

    def _question(self, name: str, line: Line, evidence: Kind = "values", **fields: Any) -> Question:
        answer = self.wording.told(Fact(self.text(f"{name}.answer", **fields), evidence))
        return Question(name, self.text(f"{name}.question", **fields), answer, *line)

    def _in_groups(self, *names: str) -> Line | None:
        """The line of the first of these scheduler nodes that has one, in the pane of groups."""
        line = next((self.at[name] for name in names if self.at.get(name)), None)
        return (self.graph["panes"]["groups"], line) if line else None

    def kernels(self) -> Iterator[Question]:
        """Why there are so many kernels: what became of the fusions that were tried."""
        decisions = self.graph["decisions"]
        refused, apart = [each for each in decisions if not each["taken"]], _apart(decisions)
        if not apart or not self.graph["kernels"]:
            return
        code, times = Counter(each["reason"]["code"] for each in apart).most_common(1)[0]
        one = next(each for each in apart if each["reason"]["code"] == code)
        if line := self._in_groups(*one["first"], *one["second"]):
            fields: dict[str, Any] = {
                "count": len(self.graph["kernels"]),
                "tried": len(decisions),
                "taken": len(decisions) - len(refused),
                "refused": len(refused),
                "times": times,
                "reason": self.wording.fusion(one["reason"], named=False),
            }
            yield self._question("kernels", line, **fields)

    def several(self) -> Iterator[Question]:
        """Why one line of the source, in one layer, ends in more kernels than any other."""
        links, panes = Links(self.capture), {pane["id"]: pane for pane in self.capture["panes"]}
        nodes = {node["name"]: node for node in self.graph["nodes"] if node["line"]}
        made: dict[tuple[Line, str | None], dict[str, list[Call]]] = defaultdict(lambda: defaultdict(list))
        for call in self.graph["calls"]:
            for node in (nodes[name] for name in computed(call) if name in nodes):
                for line in links.up((self.graph["panes"]["aten"], node["line"] or 0), {"source"}):
                    if panes[line[0]]["kind"] == "source":
                        made[line, node["layer"]][call["kernel"]].append(call)
        if not made:
            return
        (line, layer), kernels = max(made.items(), key=lambda one: len(one[1]))
        if len(kernels) > 1:
            library = [name for name, calls in kernels.items() if calls[0]["extern"]]
            fields = {
                "code": panes[line[0]]["lines"][line[1] - 1].partition("#")[0].strip(),
                "count": len(kernels),
                "layer": self.text("several.layer", layer=layer) if layer else "",
                "kernels": _code(kernels),
                "library": self.text("several.library", count=len(library), names=_code(library)) if library else "",
                "refused": self._refused_among(call for calls in kernels.values() for call in calls),
            }
            evidence = weakest(of_call(call) for calls in kernels.values() for call in calls)
            yield self._question("several", line, evidence, **fields)

    def _refused_among(self, calls: Iterable[Call]) -> str:
        """Why two loops of some calls were not fused; nothing where none were tried."""
        members = {name for call in calls for name in call["scheduler_nodes"]}
        for each in _apart(self.graph["decisions"]):
            if {*each["first"], *each["second"]} <= members:
                self.told = each["reason"]
                reason = self.wording.fusion(each["reason"])
                return self.text(
                    "several.refused", first=_code(each["first"]), second=_code(each["second"]), reason=reason
                )
        return ""

    def refused(self) -> Iterator[Question]:
        """Why two of its loops are not one kernel: the refusal that shared most buffers, for the rarest reason."""
        known = [each for each in _apart(self.graph["decisions"]) if each["reason"]["code"] != UNGIVEN]
        refused = [each for each in known if each["shared_buffers"] and each["reason"] != self.told]
        often = Counter(each["reason"]["code"] for each in refused)
        for each in sorted(refused, key=lambda one: (often[one["reason"]["code"]], -len(one["shared_buffers"])))[:1]:
            if line := self._in_groups(*each["first"], *each["second"]):
                first, second = _code(each["first"]), _code(each["second"])
                yield self._question(
                    "refused", line, first=first, second=second, reason=self.wording.fusion(each["reason"])
                )

    def never_written(self) -> Iterator[Question]:
        """Why the largest result that no kernel stores is in no memory."""
        if spared := unwritten([node for node in self.graph["nodes"] if node["line"]]):
            node = max(spared, key=lambda one: one["bytes"] or 0)
            line = (self.graph["panes"]["aten"], node["line"] or 0)
            how = self.text(f"never_written.{str(node['fate']).replace(' ', '_')}")
            yield self._question("never_written", line, of_fate(node), node=node["name"], bytes=node["bytes"], how=how)

    def chosen(self) -> Iterator[Question]:
        """Why a kernel runs in the configuration that it has, where a clock chose among several."""
        kernels = {kernel["name"]: kernel for kernel in self.graph["kernels"]}
        timed = []
        for choice in self.capture["choices"]:
            if choice["kind"] == "heuristic" and choice["decided"] == "timed" and choice["kernel"] in kernels:
                ran = sorted(
                    (one["milliseconds"], one["chosen"], place)
                    for place, one in enumerate(choice["configurations"])
                    if one["milliseconds"]
                )
                if len(ran) > 1 and ran[0][1]:
                    timed.append((len(ran), choice, ran))
        for count, choice, ran in sorted(timed, key=lambda one: -one[0])[:1]:
            configuration = choice["configurations"][ran[0][2]]["configuration"]
            fields = {
                "count": count,
                "kernel": choice["kernel"],
                "configuration": ", ".join(f"{name}={value}" for name, value in configuration.items()),
                "microseconds": self.text.number(1e3 * ran[0][0], ".1f"),
                "slowest": self.text.number(1e3 * ran[-1][0], ".1f"),
            }
            yield self._question("chosen", (self.graph["panes"]["code"], kernels[choice["kernel"]]["first"]), **fields)


def unwritten(nodes: Iterable[Node]) -> list[Node]:
    """Those nodes whose results, of a known size, no kernel stores; bits seen as another dtype never had memory."""
    return [one for one in nodes if one["fate"] in WRITTEN_FOR and one["bytes"] and one["target"] != DTYPE_VIEW]


def _apart(decisions: Iterable[Decision]) -> list[Decision]:
    """The fusions that were refused and came about by no other."""
    return [each for each in decisions if not each["taken"] and not each.get("joined")]


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def questions(capture: Capture, language: str = "en") -> list[Question]:
    """Up to `MOST` questions of a capture, the most general first.

    Args:
        capture: of a model.
        language: of question and answer.
    """
    asker = _Asker(capture, language)
    if any(call.get("doubted") for call in asker.graph["calls"]):  # then it is not known which loops a kernel has
        return [*asker.chosen()]
    found = [*asker.kernels(), *asker.several(), *asker.chosen(), *asker.refused(), *asker.never_written()]
    return found[:MOST]
