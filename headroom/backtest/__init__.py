"""What a prediction policy would have done on recorded usage: the agent's own models, replayed through time."""
