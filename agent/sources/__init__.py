"""Sources of the running pods and of the node's resources: API server or the machine itself."""
