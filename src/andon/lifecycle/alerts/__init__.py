"""Alerts: the checks of rules and targets, when a rule fires, and the text of its notices. Pure."""
