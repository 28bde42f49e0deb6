"""`vigil apply`: a file that says how the fleet shall be, what differs from it, and the steps that make it so."""
