"""Giving borrowed room back: who leaves, a pure decision, and the controller that holds the room and evicts.

What calls the API server raises ApiError where that refuses, and ApiUnavailable where it is away or another replica
leads by now.
"""
