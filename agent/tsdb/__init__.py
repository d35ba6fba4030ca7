"""The local time-series database: append, window, roll up, keep within bounds. Knows no Kubernetes."""
