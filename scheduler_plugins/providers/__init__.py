"""Sources of utilisation other than NodeMetrics: other systems, polled. Plugins read only their last results."""
