"""Delivering alerts: the worker of their queue, and what tells each kind of target."""
