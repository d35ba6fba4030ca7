"""Events in, patches out: every contact with the API server. No arithmetic here."""
