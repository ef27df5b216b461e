"""Messages of the Taskcluster face: what happens to its tasks, sent to subscribers."""
