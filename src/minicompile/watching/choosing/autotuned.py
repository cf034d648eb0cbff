"""What `select_algorithm` chose among: templates with their configurations, library calls, and the time of each.

`AlgorithmSelectorCache` is asked for one operation at a time, while that is lowered. On a GPU it may put the decision
off until the scheduler knows what is fused to the product; the caller that is finalised then is the one chosen.
"""

import inspect
import math
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from minicompile.torch_private.names import owner
from minicompile.watching.choosing import predicates
from minicompile.watching.choosing.hooking import Hooks, aside
from minicompile.watching.snapshot import buffer_facts

MOST_SOURCE = 40_000  # characters of one candidate's code that are kept
MOST_SOURCES = 12  # candidates of one operation whose code is kept: the chosen one, then the fastest
NO_CALLER = ("not_generated", "not_offered")
PAIR = re.compile(r"(\w+)=('[^']*'|\([^)]*\)|\[[^\]]*\]|[^,\s]+)")


class Autotuned:
    """The operations that an algorithm was selected for in the graph that is being compiled."""

    def __init__(self, simulated: bool) -> None:
        self._simulated = simulated
        self._asked: list[dict] = []
        self._callers: list[tuple[dict, dict, Any]] = []  # (the operation's record, the candidate's, torch's object)
        self._refused: list[tuple[str | None, dict]] = []  # candidates that no caller was made of, by the node

    def patches(self, hooks: Hooks) -> Iterator[AbstractContextManager]:
        """The patches to enter for the time of a compile."""
        yield from hooks.around("select_algorithm", self._select)
        yield from hooks.around("autotuning", self._time)
        yield from hooks.around("autotune_exceptions", self._failed_to_compile)
        yield from hooks.around("benchmark_choice", self._run)
        yield from hooks.around("triton_template", self._offered)
        yield from hooks.around("kernel_template", self._offered)
        yield from hooks.around("finalised", self._finalised)
        yield from predicates.patches(hooks, self._not_offered)
        if self._simulated:
            yield from hooks.around("precompile_choices", lambda _: lambda *args, **kwargs: lambda: {})

    def take(self) -> list[dict]:
        """The operations so far, in order: `node`, `operation`, `inputs`, `output`, `decided`, `candidates`."""
        for record in self._asked:
            _settle(record)
        kept = {id(candidate) for record in self._asked for candidate in _kept(record)}
        for _, candidate, caller in self._callers:
            candidate["source"] = _source(caller) if id(candidate) in kept else None
        taken, self._asked, self._callers, self._refused = self._asked, [], [], []
        return taken

    def _select(self, original):
        signature = inspect.signature(original)

        def select(cache, *args, **kwargs):
            self._record(signature.bind(cache, *args, **kwargs).arguments)
            if self._simulated:
                kwargs["return_multi_template"] = False
            result = original(cache, *args, **kwargs)
            made = result[1] if isinstance(result, tuple) else None
            if made is not None:
                self._mark(made, chosen=True)
            return result

        return select

    @aside
    def _record(self, given: dict) -> None:
        config = owner("config")
        tuned = bool(config.max_autotune or config.max_autotune_gemm)
        node = _node()
        offered = [(_candidate(caller), caller) for caller in given["choices"]]
        refused = [one for at, one in self._refused if at == node and (tuned or one["reason"]["code"] != "not_offered")]
        record = {
            "node": node,
            "operation": given["name"],
            "inputs": [_tensor(one) for one in given["input_nodes"]],
            "output": _tensor(given["layout"]),
            "max_autotune": tuned,
            "deferred": tuned and _deferred(given),
            "deterministic": bool(getattr(config, "deterministic", False)),
            "simulated": self._simulated,
            "candidates": [*(candidate for candidate, _ in offered), *refused],
        }
        self._callers += [(record, candidate, caller) for candidate, caller in offered]
        self._refused = []
        self._asked.append(record)

    def _mark(self, caller: Any, **facts: Any) -> None:
        for _, candidate, known in reversed(self._callers):
            if known is caller:
                candidate.update(facts)
                return

    def _time(self, original):
        def do_autotuning(cache, *args, **kwargs):
            timings = {} if self._simulated else original(cache, *args, **kwargs)
            for caller, milliseconds in (timings or {}).items():
                if math.isfinite(milliseconds):
                    self._mark(caller, milliseconds=float(milliseconds))
            return timings

        return do_autotuning

    def _failed_to_compile(self, original):
        def log_exceptions(exceptions, *args, **kwargs):
            for caller, error in exceptions:
                self._mark(caller, reason={"code": "compile_failed", "message": _message(error)})
            return original(exceptions, *args, **kwargs)

        return log_exceptions

    def _run(self, original):
        def benchmark_choice(cls, choice, *args, **kwargs):
            try:
                return original(cls, choice, *args, **kwargs)
            except Exception as error:
                self._mark(choice, reason={"code": "run_failed", "message": _message(error)})
                raise

        return benchmark_choice

    def _offered(self, original):
        def maybe_append_choice(template, choices, *args, **kwargs):
            error = original(template, choices, *args, **kwargs)
            if error is not None:
                self._refuse(template, error, kwargs)
            return error

        return maybe_append_choice

    @aside
    def _refuse(self, template: Any, error: BaseException, given: dict) -> None:
        settings = {key: value for key, value in given.items() if isinstance(value, int | float | str)}
        made = {
            **_blank(str(getattr(template, "name", type(template).__name__)), _language(template)),
            "configuration": settings,
            "reason": {"code": "not_generated", "message": _message(error)},
        }
        self._refused.append((_node(), made))

    @aside
    def _not_offered(self, predicate: str, kind: str, last: dict) -> None:
        made = {**_blank(predicate.removeprefix("use_"), kind), "reason": {"code": "not_offered", **last}}
        if (_node(), made) not in self._refused:
            self._refused.append((_node(), made))

    def _finalised(self, original):
        def finalize_as_triton_caller(buffer, caller, *args, **kwargs):
            self._mark(caller, chosen=True)
            return original(buffer, caller, *args, **kwargs)

        return finalize_as_triton_caller


def _deferred(given: dict) -> bool:
    """Whether Inductor chooses once it knows what can be fused, for which a GPU times Triton templates again."""
    return (
        bool(given.get("return_multi_template"))
        and given.get("input_gen_fns") is None
        and given["layout"].device.type != "cpu"
        and not getattr(owner("config"), "deterministic", False)
        and len(given["choices"]) > 1
        and any(_language(caller) == "triton" for caller in given["choices"])
    )


def _node() -> str | None:
    """The ATen node that is being lowered."""
    return getattr(getattr(owner("V").V.graph, "current_node", None), "name", None)


def _settle(record: dict) -> None:
    """Say how a record was decided, and why each candidate without a time has none."""
    candidates = record["candidates"]
    callers = [one for one in candidates if one["reason"] is None or one["reason"]["code"] not in NO_CALLER]
    timed = [one for one in candidates if one["milliseconds"] is not None]
    record["decided"] = _how(record, timed, callers)
    if callers and not any(one["chosen"] for one in candidates):
        # put off until the scheduler, and then no template: the fastest library call
        libraries = [one for one in timed if one["kind"] == "library"]
        alone = min(libraries or timed, key=lambda one: one["milliseconds"]) if timed else callers[0]
        alone["chosen"] = True
    for one in candidates:
        if one["milliseconds"] is None and one["reason"] is None:
            one["reason"] = {"code": "pruned" if timed else _why_untimed(record)}
    for key in ("simulated", "deterministic"):
        del record[key]


def _how(record: dict, timed: list[dict], callers: list[dict]) -> str:
    if timed:
        return "timed"
    if len(callers) == 1:
        return "only_one"
    return next((how for how in ("simulated", "deterministic") if record[how]), "untimed")


def _why_untimed(record: dict) -> str:
    if record["decided"] == "only_one":
        return "only_one" if record["max_autotune"] else "max_autotune_off"
    return "no_device" if record["decided"] == "simulated" else record["decided"]


def _kept(record: dict) -> list[dict]:
    """The candidates whose code is worth its bytes."""
    return sorted(
        record["candidates"],
        key=lambda one: (not one["chosen"], one["milliseconds"] is None, one["milliseconds"] or 0.0),
    )[:MOST_SOURCES]


def _blank(name: str, kind: str) -> dict:
    return {
        "name": name,
        "kind": kind,
        "template": None,
        "configuration": {},
        "milliseconds": None,
        "reason": None,
        "chosen": False,
        "source": None,
    }


def _candidate(caller: Any) -> dict:
    caller = getattr(caller, "_wrapped", caller)  # by what prepares its operands
    kind = _language(caller)
    configuration = {key: value.strip("'") for key, value in PAIR.findall(getattr(caller, "description", "") or "")}
    template = getattr(caller, "template", None)
    if kind == "cpp":
        configuration.update(_cpp_configuration(template))
    return {
        **_blank(str(getattr(caller, "name", caller)), kind),
        "template": type(template).__name__ if template is not None else _triton_template(caller, kind),
        "configuration": configuration,
    }


def _triton_template(caller: Any, kind: str) -> str | None:
    return re.sub(r"_\d+$", "", caller.name) if kind == "triton" else None


def _language(thing: Any) -> str:
    """`library`, or what the template is written in, by torch's class of it."""
    name = type(thing).__name__.lower()
    for word, kind in {"extern": "library", "cutlass": "cutlass", "cuda": "cutlass", "cpp": "cpp"}.items():
        if word in name:
            return kind
    return "triton" if "triton" in name else "other"


def _cpp_configuration(template: Any) -> dict[str, str]:
    """Register, cache and thread blocking of a C++ GEMM template, which it fixes by rule."""
    threads = getattr(template, "num_threads", None)
    found = {"threads": str(threads)} if threads else {}
    blocking = getattr(template, "register_blocking", None)
    if blocking is not None:
        found["register_blocking"] = "x".join(
            str(getattr(blocking, key)) for key in ("block_m", "block_n", "block_k") if hasattr(blocking, key)
        )
    return found


def _source(caller: Any) -> str | None:
    """The code that a candidate would run, as far as torch has written it."""
    request = getattr(getattr(caller, "_wrapped", caller), "bmreq", None)
    text = getattr(request, "source_code", None)
    path = getattr(request, "module_path", None)
    if not text and path and Path(path).is_file():
        text = Path(path).read_text()
    return text[:MOST_SOURCE] if isinstance(text, str) else None


def _tensor(node: Any) -> dict:
    """Size and dtype of an IR node or of a layout."""
    if hasattr(node, "size") and hasattr(node, "dtype") and not hasattr(node, "get_size"):
        node = _Sized(node)
    facts = buffer_facts(node)
    return {"size": facts["size"], "dtype": facts["dtype"]}


class _Sized:
    """A layout with a buffer's two questions."""

    def __init__(self, layout: Any) -> None:
        self.get_size, self.get_dtype = lambda: layout.size, lambda: layout.dtype


def _message(error: BaseException) -> str:
    """What an error says first, in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:300]
