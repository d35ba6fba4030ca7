"""What goes wrong in the dev cluster, in plain lines.

Whatever cannot be done raises one of these; docstrings do not repeat it.
"""


class DevClusterError(Exception):
    """Something the caller can act on: the message names the thing and the way out.

    The command line prints it without a traceback.
    """


class MissingRequirementError(DevClusterError):
    """A program or a right that this machine lacks; the message says how to get it."""
