"""Where machines and networks meet: that a network can be a machine is the theorem of the project."""
