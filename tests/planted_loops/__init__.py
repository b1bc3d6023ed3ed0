"""Training loops with a planted limit, to hold the verdicts of `skymark watch` against."""
