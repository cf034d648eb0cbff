"""What the concept pages quote: each module takes its figures from a record, or from a run here."""
