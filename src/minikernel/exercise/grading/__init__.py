"""A class marked: what was handed in, marked in processes of its own, timed, and gathered in a table.

It knows students and their folders. What an exercise asks and what is right in it, it leaves to `exercise`.
"""
