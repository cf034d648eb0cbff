"""How fast is it: timing, ceilings, bench, contest, tuning; numbers out, no words."""
