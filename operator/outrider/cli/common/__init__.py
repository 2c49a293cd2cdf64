"""What several commands share: options, output, files, the cluster, programs that they start."""
