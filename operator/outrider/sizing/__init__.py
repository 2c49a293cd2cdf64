"""What to expect of a model on a GPU before a launch: memory, speed, money, a first table. Pure."""
