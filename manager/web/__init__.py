"""The built-in web page: what the cluster and each node use, what they will need and what they sell. It only reads."""
