"""The hooks on a compile, and their only product: a `Watched`, plain data that says what was seen.

It knows torch, Inductor and Triton from within, and nothing of what is concluded from what it saw, or of any page. What
those need who conclude, the form of the data and how its texts are laid out, stands here without torch.
"""
