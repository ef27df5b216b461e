"""The worker: claims tasks, runs their handlers, keeps their leases, reports how they ended."""
