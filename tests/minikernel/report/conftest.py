from overlaps import no_text_over_text  # noqa: F401  whatever these tests draw
