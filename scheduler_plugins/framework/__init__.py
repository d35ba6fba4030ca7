"""How plugins are asked and their answers combined. Knows no plugin, no HTTP and no Kubernetes object."""
