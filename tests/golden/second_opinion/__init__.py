"""What our answers must be, worked out a second time from the design: plain dicts and integers.

Nothing of the manager's code is called here, so that a rule that says what we answer instead of a peer is no mirror.
"""
