"""The service: everything that can be asked about tasks, over HTTP."""
