"""Brings weights onto a volume before engines start: the program of a model's download Job.

``python -m outrider_weights`` runs in the engine's image, whose huggingface_hub it uses; obstore, for
buckets, comes with the plugin. It has no right in the cluster: it reports its progress over HTTP, and its end
in its termination message.
"""
