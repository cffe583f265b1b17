"""CAMEL as a paper of `repro`: experiments, testbed, printed numbers, claims and page."""
