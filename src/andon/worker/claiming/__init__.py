"""How a worker gets its tasks: when it claims, how many, and from which queue and partition."""
