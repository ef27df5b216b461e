"""Workers and engines elsewhere: claims, renewals and reports over HTTP, and hints as streams."""
