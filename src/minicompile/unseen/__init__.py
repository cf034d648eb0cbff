"""What an `explore` cannot capture, found so that its page can say so: earlier compiles, other processes, AOT."""
