"""What every run on a cluster needs: its cluster, load, counts, the model's status, the look of a picture."""
