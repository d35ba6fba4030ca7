"""What the services share, and what runs on a user's machine: API client, runtime, CLI and backtest."""
