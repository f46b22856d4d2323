"""The client in the shapes that stores and frameworks ask for: one small module each.

Each knows its library and the client, and nothing else of ours; none is imported by the server.
Documents are read as documents and queries as queries, wherever the library tells them apart.
"""
