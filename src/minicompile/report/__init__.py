"""Stage 25's pages and pictures, from its artefacts: reports, survey, profile, training."""
