"""Records: where a result comes from, what it depends on, whether it still holds, and how it is published."""
