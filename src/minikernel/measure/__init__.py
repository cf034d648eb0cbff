"""How fast is it: timing, ceilings, bench, contest, tuning; numbers out, no words.

It knows how to time a kernel honestly, and what the device could do at best. It does not know whether a kernel is
right, which is proven before, and draws nothing.
"""
