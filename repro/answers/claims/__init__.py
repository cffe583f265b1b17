"""Claims as data, the evidence for each, and the verdict that follows."""
