"""Messages of the Taskcluster face: what happens to its tasks, told to whoever subscribed."""
