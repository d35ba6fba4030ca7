"""What every service of ours needs to run and that is about no kind of Kubernetes: its log. Standard library alone."""
