"""How a program gets an image: installed, read once a boot, in a folder."""
