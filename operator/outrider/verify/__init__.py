"""Is speculation lossless on a live model? What its answers say of that. Pure."""
