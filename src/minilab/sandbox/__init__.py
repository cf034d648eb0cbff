"""Somebody else's code in a process with limits, which ends with the lab, and with it all that it started."""
