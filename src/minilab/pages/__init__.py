"""What pictures and pages share: palette, base style sheet, templates in each language, translated words."""
