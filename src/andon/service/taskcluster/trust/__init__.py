"""Authentication and scopes of the Taskcluster face: Hawk, certificates, clients, roles."""
