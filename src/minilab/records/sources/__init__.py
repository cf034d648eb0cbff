"""What a result follows from: its code, its data and what a user's code opened, in digests of what matters of them.

It knows what a script depends on. It does not know who measured what, or when.
"""
