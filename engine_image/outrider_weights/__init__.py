"""Brings weights onto a volume before engines start: the program of a model's download Job.

``python -m outrider_weights`` runs in the engine's image, whose huggingface_hub it uses; obstore, for
buckets, comes with the plugin. It has no right in the cluster: it tells how far it is over HTTP, and how it
ended in its termination message.
"""
