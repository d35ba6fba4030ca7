"""A node at a time from a queue: inputs gathered, Mid calculated, the Node patched, and the steps that follow."""
