"""Scheduler plugins: snapshot, filter, score, respond. Writes nothing but what `waking` does: an annotation, Events."""
