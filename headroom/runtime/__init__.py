"""What every service needs and no kind of Kubernetes has a part in: options, logs, HTTP, health, clocks, rates."""
