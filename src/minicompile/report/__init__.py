"""Writes stage 25's pages and draws its pictures from its artefacts."""
