"""What kube-scheduler talks to: extender/v1 over HTTP. Judges nothing itself; asks the framework."""
