"""Models as the engine sees them: tasks here, architectures in models, shared parts in layers."""
