"""Machines from labelled words: the data, three methods, and whether the words determine the machine."""
