"""Records into figures."""
