"""The explorer: one offline HTML file in which every line shows what it was made from and what became of it.

It knows a capture's texts and the links between their lines, and lays them out. It does not know why a line is as it
is: that stands in the capture.

tlparse (github.com/meta-pytorch/tlparse) and depyf (github.com/thuml/depyf) show the same stages as separate files, for
a whole program and in production; this page adds what leads from each line to the next, down to the line inside a
kernel, and why.
"""

from minicompile.explain.explorer.render import render_explorer

__all__ = ["render_explorer"]
