"""A federation between machines: what is sent (`frames`), what a device does with it (`device`),
who takes part (`roster`), what all agree on (`agreement`), and Flower, which carries the
messages."""
