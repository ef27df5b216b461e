"""Who may do what: scopes, API tokens, run tokens, and the one place that asks for them."""
