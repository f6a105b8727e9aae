"""What a user calls: each function here is a command of the command line and a name of `import statewise`."""
