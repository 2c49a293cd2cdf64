"""The main job on real input: a model under changing load, tuned live, against static tables."""
