"""Text that somebody else wrote, as it may be shown: whatever the API holds is untrusted at every output."""

import json


def printable(text: str) -> str:
    """The text on one line: what controls a terminal, breaks a line or turns its direction is escaped."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def printable_json(text: str) -> str:
    """JSON whose strings hold the same with escapes of JSON in place of what is not printable."""
    if text.replace("\n", "").isprintable():
        return text
    return "".join(char if char == "\n" or char.isprintable() else json.dumps(char)[1:-1] for char in text)
