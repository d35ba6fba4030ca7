"""Reclaiming borrowed resources: a pure decision about victims, and the controller that reserves and evicts.

What calls the API server raises ApiError where that refuses, and ApiUnavailable where it is away or another replica
leads by now.
"""
