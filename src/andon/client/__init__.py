"""What user code imports: the application, its tasks, and handles on what was submitted."""
