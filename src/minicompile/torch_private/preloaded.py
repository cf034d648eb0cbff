"""Imports Inductor, so that a process which imports this module, and those forked from it, need not."""

from minicompile.torch_private.names import owner

owner("compile_fx")
