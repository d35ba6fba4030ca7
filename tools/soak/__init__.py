"""Claims about hours or a month, tested within an hour: each step prints its claims, and passes or fails."""
