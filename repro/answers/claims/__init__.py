"""The papers' claims as data, the results that speak to them, and the verdicts that follow."""
