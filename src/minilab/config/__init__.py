"""The configuration: what is refused before anything runs, and what a job asks of a scheduler."""
