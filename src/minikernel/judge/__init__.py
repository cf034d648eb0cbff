"""A user's kernel judged from outside: its process computes in shared memory; inputs and verdicts are the judge's."""
