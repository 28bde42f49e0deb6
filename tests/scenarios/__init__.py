"""Five true starts that went wrong, replayed in compressed time: what the public API says at each moment."""
