"""Records: where a result comes from, what it depends on, whether it still holds, and how it is published.

It knows every artefact by its place in one table. It does not know what the figures in it mean, nor how to measure one.
"""
