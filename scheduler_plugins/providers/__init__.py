"""Where utilisation comes from when not from NodeMetrics: other systems, polled. Plugins see only what they said."""
