"""Records of published measurements: their form, their age, and the tables that pages take from them."""
