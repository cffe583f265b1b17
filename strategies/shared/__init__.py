"""What several strategies share. No file in here is a strategy."""
