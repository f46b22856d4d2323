"""Requests that go to workers by a broker: who sends, who is to pull, what becomes of the dead."""
