"""What a client learns before anything else."""
