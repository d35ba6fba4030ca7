"""Drives reference vectors (inputs and expected outputs of peers) through our own functions."""
