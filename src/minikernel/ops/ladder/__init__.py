"""The ladder: the rungs that are there to learn from, and the order in which all rungs are climbed."""
