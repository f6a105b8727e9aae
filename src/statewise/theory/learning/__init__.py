"""How a machine is found from labelled words: the words, three methods, and what the words leave open."""
