"""How a program gets an image: installed, made by itself, read once a boot."""
