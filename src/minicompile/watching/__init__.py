"""The hooks on a compile, and their only product: a `Watched`, plain data that says what was seen.

It knows torch, Inductor and Triton from within, and nothing of what is concluded from what it saw, or of any page.
`watched`, `stacks` and `output_code` are read by those who conclude; they know no torch either.
"""
