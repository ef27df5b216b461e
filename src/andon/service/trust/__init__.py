"""Authentication and authorization: scopes, API tokens, run tokens, and the place that checks
them."""
