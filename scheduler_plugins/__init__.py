"""Scheduler plugins: snapshot, filter, score, answer. Writes nothing but what `requeue` does: an annotation, Events."""
