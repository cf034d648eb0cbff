"""Loop bodies as Inductor makes them, written by hand."""

from types import SimpleNamespace

from torch._inductor.virtualized import V


class Body:
    """A loop body as Inductor runs one: called with its variables, under an interpreter that knows the operation."""

    def __init__(self, sizes: tuple, run) -> None:
        self.sizes, self.run = sizes, run

    def __call__(self, *variables) -> None:
        node = SimpleNamespace(name="operation", graph=self)
        with V.set_interpreter_handler(SimpleNamespace(current_node=node)):
            self.run(*(one for group in variables for one in group))
