"""What a what-if found, for people: a page that asks for a guess before it shows the answer, and some lines of text.

It knows how two compiles that differ in one knob are shown. It compiles nothing, and does not know what the knob does.
"""

from minicompile.explain.what_if.render import render_what_if, summary

__all__ = ["render_what_if", "summary"]
