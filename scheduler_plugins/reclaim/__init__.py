"""Giving borrowed room back: whom to evict for a pod that its quota guarantees room. All but the controller is pure."""
