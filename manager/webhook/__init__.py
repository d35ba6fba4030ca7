"""The admission webhook: requests, certificates, the listener. No kopf and no verdict: `handlers` joins them."""
