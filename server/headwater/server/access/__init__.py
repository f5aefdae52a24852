"""Access: which operation needs which scope and which right, and who has them.

May import nothing else of the server but its store of recent answers.
"""
