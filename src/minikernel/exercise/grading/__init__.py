"""A class marked: what was handed in, marked in processes of its own, timed, and gathered in a table."""
