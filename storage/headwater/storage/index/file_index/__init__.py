"""Indexes over the columns of single data files, built with them and asked before they are read.

May import rows and the rooms below them.
"""
