"""The backtest of prediction policies on recorded usage: the agent's own models, replayed through time."""
