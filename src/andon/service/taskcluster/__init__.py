"""The face of a Taskcluster queue: what its clients and workers ask, answered by Andon's engine."""
