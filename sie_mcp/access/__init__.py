"""Who may call a server over TCP, and how much: keys, tokens, limits, and the gate."""
