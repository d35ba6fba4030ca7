"""`kubectl headroom backtest`: what a prediction policy would have done on recorded usage; writes to no cluster."""
