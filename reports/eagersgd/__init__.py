"""eager-SGD: the claims, figures, tables and words of its page."""
