"""A kernel of Inductor's explained from its capture."""
