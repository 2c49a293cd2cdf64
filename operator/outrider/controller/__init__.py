"""The two loops: reconcile and tune; leadership, watches, and the process around them."""
