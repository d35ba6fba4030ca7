"""Tests of the documentation: the form of its pages, their references, and their commands."""
