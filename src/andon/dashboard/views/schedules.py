"""Schedules in words."""

from andon.model.recurrence import Recurrence


def times_of(recurrence: Recurrence) -> str:
    """When it fires, in short."""
    cron = " | ".join(recurrence.cron)
    often = cron or (f"every {recurrence.every:g}s" if recurrence.every else "")
    return f"{often} {recurrence.tz}" if cron and recurrence.tz != "UTC" else often
