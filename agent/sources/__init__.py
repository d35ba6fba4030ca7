"""Where the agent learns which pods run and what the node has: API server, kubelet, or the machine itself."""
