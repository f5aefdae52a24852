"""What sources, pipelines and sinks of change data capture have in common."""
