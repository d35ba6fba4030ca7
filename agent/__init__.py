"""The node agent: collect, store, predict, report. Reads the machine, writes one file and one status."""
