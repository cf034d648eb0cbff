"""From a capture's data to words and pages: annotation, explorer, diff, plain files."""
