"""What goes wrong in the dev cluster, said in plain lines."""


class DevClusterError(Exception):
    """Something the caller can act on: the message names the thing and the way out.

    The command line prints it without a traceback.
    """


class MissingRequirementError(DevClusterError):
    """A program or a right that this machine lacks; the message says how to get it."""
