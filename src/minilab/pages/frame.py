"""A page in a notebook."""

from markupsafe import escape

HEIGHT = 800  # pixels


class Framed(str):
    """A page's HTML that a notebook shows in a frame: `Framed(timeline_page(record))` as the last line of a cell."""

    def _repr_html_(self) -> str:
        return f'<iframe srcdoc="{escape(str(self))}" style="width: 100%; height: {HEIGHT}px; border: 0"></iframe>'
