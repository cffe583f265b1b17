"""The program of one rank: from the run's configuration to this rank's part of the record."""
