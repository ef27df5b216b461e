"""Who asks the Taskcluster face, and what they may: Hawk, certificates, clients, scopes."""
