"""The Taskcluster face: the API of a Taskcluster queue, answered by Andon's engine."""
