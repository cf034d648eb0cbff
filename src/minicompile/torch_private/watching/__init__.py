"""The hooks on a compile; their only product is plain data, what they saw.

It knows where to look while torch compiles, and leaves the generated code as it was. It does not know what follows from
what it saw: nothing is concluded here.
"""
