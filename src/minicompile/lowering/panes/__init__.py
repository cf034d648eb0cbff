"""The texts of a capture, a pane each, and the links between their lines.

It knows which line of one text belongs to which of the next. It does not know how panes are shown.
"""
