"""Personal data in texts: found by a model and by validated patterns, counted or masked."""
