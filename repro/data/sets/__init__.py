"""The data sets, one file each; `repro.data` says what such a file holds."""
