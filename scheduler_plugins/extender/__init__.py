"""The server for kube-scheduler: extender/v1 over HTTP. Decides nothing itself; calls the framework."""
