"""Alerts: what can be a rule or target, when a rule fires, and what is said of it. Pure."""
