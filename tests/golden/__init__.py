"""Drives reference vectors (inputs and expected outputs of the systems we stand beside) through our own functions."""
