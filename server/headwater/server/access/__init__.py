"""Access: which operation needs which scope and which right, and the check before each of them.

May import the server's dependencies.
"""
