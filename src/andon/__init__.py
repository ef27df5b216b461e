"""Andon, a durable task queue whose subject is the life of a task."""
