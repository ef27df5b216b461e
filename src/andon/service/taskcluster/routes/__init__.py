"""The routes of the Taskcluster face: one file for each group of them."""
