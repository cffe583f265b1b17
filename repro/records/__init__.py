"""What a run leaves behind, and how it is read: events, summaries, where they came from."""
