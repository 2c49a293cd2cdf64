"""Pictures for pages and files, as SVG. Pure."""
