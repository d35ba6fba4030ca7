"""What must hold for hours or a month, tried within an hour: each step prints what it tried, and passes or fails."""
