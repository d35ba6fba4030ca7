"""The built-in web page: what the cluster and each node use, will need and publish. It only reads."""
