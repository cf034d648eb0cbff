"""One model's captures under several versions of torch: what differs from each to the next, why, and the page of it.

It knows how captures of different versions are held against each other. It makes none, and imports no torch.
"""

from minicompile.explain.over_time.compared import over_time
from minicompile.explain.over_time.render import render_over_time, told

__all__ = ["over_time", "render_over_time", "told"]
