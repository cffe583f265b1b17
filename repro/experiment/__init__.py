"""An experiment, from its file to the runs that it consists of, each with its configuration and key."""
