"""View models: what a page shows, computed from what was read. Pure, and shared by the board and
`andon top`."""
