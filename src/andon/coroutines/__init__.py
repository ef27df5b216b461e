"""Small helpers for asyncio that know nothing of tasks."""
