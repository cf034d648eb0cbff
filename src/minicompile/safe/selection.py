"""Selects which modules compile and what stays eager, by qualified name, class name or glob.

A pattern is matched as `fnmatch` does, case and all; `*` crosses dots, so that `blocks.*` means the blocks
and all inside them. Of nested matches only the outermost counts. A `ModuleList` stands for its members.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from fnmatch import fnmatchcase
from types import FunctionType

from torch import nn

from minicompile.torch_private.dynamo import is_fsdp
from minilab import ConfigError

CONTAINERS = (nn.ModuleList, nn.ModuleDict)


@dataclass
class Selection:
    """What to compile in place and what to keep from the compiler, by qualified name."""

    compiled: dict[str, nn.Module]
    blocked_modules: dict[str, nn.Module] = field(default_factory=dict)
    blocked_functions: dict[str, list[tuple[object, str]]] = field(default_factory=dict)


def names_of(name: str, module: nn.Module) -> set[str]:
    kind = type(module)
    return {name, kind.__name__, f"{kind.__module__}.{kind.__qualname__}"} - {""}


def functions_of(model: nn.Module) -> dict[str, list[tuple[object, str]]]:
    """List the functions a model may call, by name: methods of its classes (`Class.method`) and the globals of the
    files that define those (`module.function`), each with every (owner, attribute) that refers to it.

    `forward` is left out: a module is blocked by its own name or its class's.
    """
    found: dict[str, list[tuple[object, str]]] = {}
    for kind in {type(module) for module in model.modules()}:
        source = sys.modules.get(kind.__module__)
        if source is None or kind.__module__.split(".")[0] == "torch":
            continue
        for attribute, value in vars(kind).items():
            if isinstance(getattr(value, "__func__", value), FunctionType) and attribute != "forward":
                found.setdefault(f"{kind.__name__}.{attribute}", []).append((kind, attribute))
        for attribute, value in vars(source).items():
            if isinstance(value, FunctionType) and (value.__module__ or "torch").split(".")[0] != "torch":
                name = f"{value.__module__}.{value.__qualname__}"
                places = found.setdefault(name, [])
                home = sys.modules.get(value.__module__)
                for place in ((source, attribute), (home, value.__name__)):
                    if place not in places and getattr(*place, None) is value:
                        places.append(place)
    return found


def outermost(modules: dict[str, nn.Module]) -> dict[str, nn.Module]:
    """Drop the modules that lie inside another of them."""
    return {
        name: module
        for name, module in modules.items()
        if not any(other == "" or name.startswith(f"{other}.") for other in modules if other != name)
    }


def _callable_members(modules: dict[str, nn.Module]) -> dict[str, nn.Module]:
    members = {}
    for name, module in modules.items():
        if isinstance(module, CONTAINERS):
            children = {f"{name}.{key}" if name else key: child for key, child in module.named_children()}
            members.update(_callable_members(children))
        else:
            members[name] = module
    return members


def _unmatched(pattern: str, kind: str, candidates: Sequence[str]) -> ConfigError:
    near = get_close_matches(pattern, candidates, n=3, cutoff=0.4) or sorted(candidates)[:3]
    return ConfigError(
        f"{kind} pattern {pattern!r} matches nothing in the model; "
        f"near names are {', '.join(map(repr, near)) if near else 'none'}."
    )


def select(model: nn.Module, allowlist: Sequence[str], blocklist: Sequence[str]) -> Selection:
    """Find what the patterns name. The blocklist wins over the allowlist.

    An empty allowlist means the model itself; where FSDP2 manages it, the innermost modules it manages,
    so that its own wrappers, with their communication, stay eager.

    Raises:
        ConfigError: a pattern matches nothing (with near names), or nothing is left to compile.
    """
    modules = dict(model.named_modules())
    aliases = {alias for name, module in modules.items() for alias in names_of(name, module)}
    functions = functions_of(model) if blocklist else {}

    def matching(pattern: str) -> dict[str, nn.Module]:
        return {
            name: module
            for name, module in modules.items()
            if any(fnmatchcase(alias, pattern) for alias in names_of(name, module))
        }

    allowed: dict[str, nn.Module] = {}
    for pattern in allowlist:
        found = matching(pattern)
        if not found:
            raise _unmatched(pattern, "allowlist", sorted(aliases))
        allowed.update(found)
    if not allowlist:
        managed = {name: module for name, module in modules.items() if is_fsdp(module)}
        innermost = {n: m for n, m in managed.items() if not any(is_fsdp(c) for c in m.modules() if c is not m)}
        allowed = innermost or {"": model}

    blocked: dict[str, nn.Module] = {}
    blocked_functions: dict[str, list[tuple[object, str]]] = {}
    for pattern in blocklist:
        found = matching(pattern)
        found_functions = {name: places for name, places in functions.items() if fnmatchcase(name, pattern)}
        if not found and not found_functions:
            raise _unmatched(pattern, "blocklist", sorted({*aliases, *functions}))
        blocked.update(found)
        blocked_functions.update(found_functions)

    blocked = _callable_members(outermost(blocked))
    inside_blocked = {id(inner) for module in blocked.values() for inner in module.modules()}
    chosen = {
        name: module
        for name, module in _callable_members(outermost(allowed)).items()
        if id(module) not in inside_blocked
    }
    if not chosen:
        raise ConfigError("the blocklist leaves nothing of the allowlist to compile; shorten one of the two.")
    return Selection(chosen, blocked, blocked_functions)
