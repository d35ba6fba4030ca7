"""Giving borrowed room back: who leaves, a pure decision, and the controller that holds the room and evicts."""
