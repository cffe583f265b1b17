"""What records say of the papers' claims: verdicts, figures, pages, their site, and MLflow as a mirror of the runs."""
