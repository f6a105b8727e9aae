"""Proofs and refutations: does a network answer as a machine does, on every word?"""
