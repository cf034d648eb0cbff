"""From a capture's data to words and pages: annotation, explorer, diff, plain files.

It knows what each fact of a capture means to a reader, and words it by its evidence. It does not know torch, needs
none, and finds no fact of its own.
"""
