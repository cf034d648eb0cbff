"""The ladder: the rungs that are there to learn from, and the order in which all rungs are climbed.

It knows what each rung adds to the one before. It does not know which one `softmax` launches: that is `dispatch`'s.
"""
