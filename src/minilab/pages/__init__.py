"""What pictures and pages share: palette, base style sheet, templates in each language, translated words.

It knows how a page looks and how a sentence is looked up. It does not know what any page says.
"""
