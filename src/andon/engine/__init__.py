"""The engine: submit, claim, report, control, dependencies and timers over any store."""
