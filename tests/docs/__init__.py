"""The documentation: the form of its pages, what they refer to, and what their commands do."""
