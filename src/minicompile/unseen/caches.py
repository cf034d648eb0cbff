"""Torch's caches under a watch: as the script has them, though everything is lowered for the watch to see.

A watch turns them off for each compile, since what comes out of a cache is not lowered, and a script that saves what
it compiled, counts hits or starts hot would then not run as it does without. So here they are on again below the watch:
looked up and filled under the script's own settings and keys; and a graph that was found is lowered once more, beside
the script, which is given what was found.
"""

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import reduce, wraps
from typing import Any
from unittest import mock

from minicompile.torch_private.around_a_watch import lookup, owner
from minicompile.watching.collected import Session
from minicompile.watching.session import UNREADABLE

CACHES_OFF = "force_disable_caches"
LOOKS = ("trace.provenance_tracking_level", "joint_custom_pre_pass", "_pre_fusion_custom_pass")  # as a watch sets them


class Caches:
    """Keeps the caches on below one watch: `below` is entered before the watch, and `above`, which knows it, after."""

    def __init__(self) -> None:
        self._session: Session | None = None
        self._own: dict[str, Any] = {}  # settings that a watch changes, as the script has them
        self._watchs: dict[str, Any] = {}  # and as the watch has them; none where caches stay off
        self._beside = contextlib.ExitStack()  # what is on while a graph is compiled that was found
        self._found = False  # AOT autograd had the graph that is being compiled
        # without it nothing is known of a graph that AOT autograd's cache had, and the watch's way is left as it is
        self._possible = lookup("aot_cache") is not None

    @contextlib.contextmanager
    def below(self) -> Iterator[None]:
        """Between the watch and Inductor."""
        inductor = owner("compile_fx")
        with contextlib.ExitStack() as stack:
            if self._possible:
                self._put(stack, inductor, "compile_fx", self._compile)
                self._put(stack, inductor, "compile_fx_inner", self._compile_inner)
                self._put(stack, owner("aot_cache"), "try_load", self._look_up, static=True)
                self._put(stack, owner("aot_cache"), "save", self._save, static=True)
                self._put(stack, owner("fx_key"), "prepare_key", self._under_own_settings, static=True)
            yield

    @contextlib.contextmanager
    def above(self, session: Session) -> Iterator[None]:
        """Between the script and the watch."""
        self._session = session
        with contextlib.ExitStack() as stack:
            self._put(stack, owner("compile_fx"), "compile_fx", self._remember)
            yield
            self._session = None

    @staticmethod
    def _put(stack: contextlib.ExitStack, holder: Any, name: str, around: Callable, static: bool = False) -> None:
        original = getattr(holder, name)

        @wraps(original)
        def instead(*args: Any, **kwargs: Any) -> Any:
            return around(original, *args, **kwargs)

        stack.enter_context(mock.patch.object(holder, name, staticmethod(instead) if static else instead))

    def _remember(self, compile_fx: Callable, *args: Any, **kwargs: Any) -> Any:
        if "inner_compile" not in kwargs:  # it calls itself, and other backends call it
            options = kwargs.get("config_patches") or {}
            self._own = {name: options.get(name, _setting(name)) for name in UNREADABLE} | self._settings()
        return compile_fx(*args, **kwargs)

    def _compile(self, compile_fx: Callable, *args: Any, **kwargs: Any) -> Any:
        now = self._settings()
        readable = not any(self._own.get(name) for name in UNREADABLE)  # else the script would save other code than its
        if not self._own or not readable or not now[CACHES_OFF] or self._own[CACHES_OFF]:
            self._watchs = {}
            return compile_fx(*args, **kwargs)
        self._watchs, self._found = now, False
        try:
            with self._on():
                return compile_fx(*args, **kwargs)
        finally:
            self._found = False
            self._beside.close()

    def _settings(self) -> dict[str, Any]:
        choosing = self._session.choices.configuration() if self._session is not None else {}
        return {name: _setting(name) for name in (CACHES_OFF, *LOOKS, *choosing)}

    def _compile_inner(self, compile_fx_inner: Callable, *args: Any, **kwargs: Any) -> Any:
        # Caches are off around what the watch compiles; a backend of the user's may call this one by itself.
        if not self._watchs or self._session is None or not _setting(CACHES_OFF):
            return compile_fx_inner(*args, **kwargs)
        before = len(self._session.lowered), len(self._session.warnings)
        with self._on():
            made = compile_fx_inner(*args, **kwargs)
        if before == (len(self._session.lowered), len(self._session.warnings)):  # it came out of the cache
            try:
                # what the script has put in the place of the watch's hook has had this code from the cache
                unheard = mock.patch.object(owner("save_output_code"), "save_output_code", None)
                with _uncounted(), unheard, owner("config").patch({CACHES_OFF: True}):
                    compile_fx_inner(*args, **kwargs)
            except Exception as error:  # of whatever kind: the script has its code already
                reason = f"{type(error).__name__}: {error}".splitlines()[0]
                told = {"code": "not_recorded", "what": "lowered", "reason": reason, "model": None}
                self._session.warnings.append(told)
        return made

    def _look_up(self, try_load: Callable, *args: Any, **kwargs: Any) -> Any:
        answer = self._under_own_settings(try_load, *args, **kwargs)
        made = answer[0] if isinstance(answer, tuple) else answer  # torch 2.11 gives no settings with it
        if made is None or not self._watchs or self._session is None:
            return answer
        # Found: what Inductor made of it is looked up again graph by graph, where each can be lowered for the watch.
        self._found = True
        if (context := owner("tracing").TracingContext.try_get()) is not None and context.output_strides:
            context.output_strides.clear()  # each graph that is found fills them in
        self._beside.enter_context(_uncounted(strides=True))
        # The backward was found too, and later it would be counted as the script's.
        self._beside.enter_context(owner("functorch_config").patch(force_non_lazy_backward_lowering=True))
        with mock.patch.object(owner("aot_cache"), "_lookup", return_value=None):
            return self._under_own_settings(try_load, *args, **kwargs)

    def _save(self, save: Callable, *args: Any, **kwargs: Any) -> Any:
        return None if self._found else save(*args, **kwargs)

    def _under_own_settings(self, look: Callable, *args: Any, **kwargs: Any) -> Any:
        """A key is made of the settings, so that a script would find nothing under those of a watch."""
        own = {name: self._own[name] for name, set_to in self._watchs.items() if _setting(name) == set_to}
        with owner("config").patch({**own, CACHES_OFF: False} if own else {}):
            return look(*args, **kwargs)

    def _on(self) -> AbstractContextManager:
        return owner("config").patch({CACHES_OFF: False})


def _setting(name: str) -> Any:
    return reduce(lambda at, part: getattr(at, part, None), name.split("."), owner("config"))


@contextlib.contextmanager
def _uncounted(strides: bool = False) -> Iterator[None]:
    """What is compiled here is in none of the counters that a script can read, and in no artefact that it saves.

    Args:
        strides: AOT autograd learns from it how a graph's results lie.
    """
    counters, metrics = owner("counters").counters, owner("metrics")
    before = {name: dict(of_it) for name, of_it in counters.items()}
    measured = {name: getattr(metrics, name) for name in metrics.get_metric_fields()}
    context = owner("tracing").TracingContext.try_get()
    known = None if context is None else context.output_strides
    if context is not None and not strides:
        context.output_strides = None  # it knows already
    with mock.patch.object(owner("artifacts"), "record_artifact", staticmethod(lambda *args, **kwargs: None)):
        try:
            yield
        finally:
            if context is not None and not strides:
                context.output_strides = known
            ended = counters["aot_autograd"]["ok"] if strides else None  # the script's own compile has ended in it
            for name, value in measured.items():
                setattr(metrics, name, value)
            for name in list(counters):
                counters[name].clear()
                counters[name].update(before.get(name, {}))
                if name not in before:
                    del counters[name]
            if ended is not None:
                counters["aot_autograd"]["ok"] = ended
