"""What services need to run and that is about no kind of Kubernetes: logs, health, rates. Standard library alone."""
