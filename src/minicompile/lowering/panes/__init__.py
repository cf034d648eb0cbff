"""The texts of a capture, a pane each, and the links between their lines."""
