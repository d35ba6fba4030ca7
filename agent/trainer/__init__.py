"""Training: the samples of each interval become histograms, moments and window averages, kept as checkpoints."""
