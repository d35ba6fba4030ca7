"""Parts that every service needs, without any kind of Kubernetes: options, logs, HTTP, health, clocks, rates."""
