"""The configuration: what is refused before anything runs, and what a job asks of a scheduler.

It knows which values can be, and which of them fit together. It does not know what they are used for.
"""
