"""Workers, clients and commands that speak to a service instead of a store."""
