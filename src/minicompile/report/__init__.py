"""Writes stage 25's pages and draws its pictures from its artefacts.

It knows how to word and draw figures that artefacts hold. It compiles nothing and times nothing.
"""
