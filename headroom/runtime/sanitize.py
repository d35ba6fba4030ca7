"""Untrusted text made safe for output: any text in the API may come from an attacker."""

import json


def printable(text: str) -> str:
    """Return the text on one line: escape control characters, line breaks and changes of direction."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def printable_json(text: str) -> str:
    """Return JSON with its non-printable characters as JSON escapes."""
    if text.replace("\n", "").isprintable():
        return text
    return "".join(char if char == "\n" or char.isprintable() else json.dumps(char)[1:-1] for char in text)
