"""The Python client that user code imports: the application, its tasks, and handles on submitted
tasks."""
