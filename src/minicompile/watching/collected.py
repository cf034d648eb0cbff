"""What the hooks collect while compiles are watched; `plain` makes data of it."""

from dataclasses import dataclass, field

from minicompile.watching.choosing.choices import Choices


@dataclass
class Session:
    """What compiles left behind."""

    asked: list[dict] = field(default_factory=list)  # what torch.compile was asked to compile, as `FrameLog` notes it
    models: list[dict] = field(default_factory=list)  # what was given to torch.compile: `name`, `class`
    compiles: list[dict] = field(default_factory=list)  # of frames, as `frames.FrameLog` describes them
    dynamo: list[dict] = field(default_factory=list)  # Dynamo's graphs, in order
    joint: dict[int, dict] = field(default_factory=dict)  # by Dynamo graph: forward and backward in one
    lowered: list[dict] = field(default_factory=list)  # a graph and a direction each
    bytecode: list[dict] = field(default_factory=list)  # `old`, a function's code, and `new`, Dynamo's
    guards: list[dict] = field(default_factory=list)  # `text` of a compile's
    choices: Choices = field(default_factory=lambda: Choices(None))  # what it knows beside those of `lowered`
    graph_breaks: list[dict] = field(default_factory=list)  # as `frames.FrameLog` describes them
    phases: dict[str, float] = field(default_factory=dict)  # seconds
    seconds: float = 0.0
    missing_hooks: list[str] = field(default_factory=list)
    warnings: list[dict] = field(default_factory=list)  # what could not be recorded: `code` and its fields

    def by_model(self) -> list["Session"]:
        """A session for each model that was compiled, its graphs numbered anew; this one where it is the only one."""
        if len(self.models) < 2:
            return [self] if self.models else []
        return [self._of(number) for number in range(len(self.models))]

    def _of(self, model: int) -> "Session":
        def own(entries: list[dict]) -> list[dict]:
            return [entry for entry in entries if entry["model"] == model]

        numbers = [number for number, graph in enumerate(self.dynamo) if graph["model"] == model]
        place = {number: position for position, number in enumerate(numbers)}
        compiles = own(self.compiles)
        return Session(
            models=[self.models[model]],
            compiles=[{**one, "graphs": [place[graph] for graph in one["graphs"]]} for one in compiles],
            dynamo=[self.dynamo[number] for number in numbers],
            joint={place[number]: graph for number, graph in self.joint.items() if number in place},
            lowered=[{**one, "index": place[one["index"]]} for one in self.lowered if one["index"] in place],
            bytecode=own(self.bytecode),
            guards=own(self.guards),
            choices=self.choices,
            graph_breaks=[
                {**one, **{side: place.get(one[side]) for side in ("after", "before")}}
                for one in own(self.graph_breaks)
            ],
            seconds=sum(one["seconds"] for one in compiles),
            missing_hooks=self.missing_hooks,
            warnings=[one for one in self.warnings if one["model"] in (model, None)],
        )
