"""The explorer: one offline HTML file in which every line shows what it was made from and what became of it.

render_explorer(capture, path)   write the page of one capture, or of two of the same model, side by side

`links` walks between lines, `highlight` colours them, `tour` finds what a first-time reader should see, `payload`
packs it all, `render` writes the file. The page itself is plain HTML, CSS and JavaScript in `page/`.

tlparse (github.com/meta-pytorch/tlparse) and depyf (github.com/thuml/depyf) show the same stages as separate files, for
a whole program and in production; this page adds what leads from each line to the next, down to the line inside a
kernel, and why.
"""

from minicompile.explain.explorer.render import render_explorer

__all__ = ["render_explorer"]
