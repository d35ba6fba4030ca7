"""Refused pods: the waiting ones, requeueing when a reason goes away, and Events about them.

Writes to nothing but an annotation of pending pods, and Events.
"""
