"""What CPUs compute faster in a form of its own; each has its plain twin in the layers above."""
