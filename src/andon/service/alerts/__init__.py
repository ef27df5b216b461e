"""Delivery of alerts: the worker of their queue, and the handler for each kind of target."""
