"""What runs on a node: sent over the channel's standard input, standard library only, Python 3.8 and newer."""
