"""Remote workers and engines: claims, renewals and reports over HTTP, and hints as streams."""
