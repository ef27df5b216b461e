"""The engine behind HTTP: what `HttpEngine` sends to a service, and how it sends it."""
