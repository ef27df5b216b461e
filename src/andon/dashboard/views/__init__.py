"""View models: what a page shows, worked out from what was read. Pure, and shared by all faces."""
