"""How a program gets an image: installed, or in a folder."""
