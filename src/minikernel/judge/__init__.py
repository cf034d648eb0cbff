"""A user's kernel judged from outside: its process computes and shares memory; inputs, comparing and verdicts are not its."""
