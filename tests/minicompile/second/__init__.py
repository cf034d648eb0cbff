"""A second reading of what pages say of a compile: from the page's words and the compiler's texts alone.

It shares no code with what writes the pages, nor with the proofs beside this folder, so it can see what both overlook.
"""
