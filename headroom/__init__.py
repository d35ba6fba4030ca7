"""Parts that the services share: API client, cluster objects and runtime."""
