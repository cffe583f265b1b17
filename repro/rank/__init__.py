"""What one started process does: from its configuration to its part of the record."""
