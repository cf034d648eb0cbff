"""The first look: what the records show, on one page, before anything is trained or compiled.

It knows which records are looked at first, and what is said of them. It measures nothing, and knows no rule.
"""
