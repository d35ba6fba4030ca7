"""Pods that we refused: which of them wait, whom to wake when a reason goes away, and what to tell people of them.

Writes to nothing but an annotation of pending pods, and Events.
"""
