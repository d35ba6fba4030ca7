def value_of(text: str, name: str) -> float:
    """The value of a metric; 0 when it is not there."""
    return next((float(line[len(name) + 1 :]) for line in text.splitlines() if line.startswith(f"{name} ")), 0.0)
