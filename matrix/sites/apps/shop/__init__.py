"""A shop out of django-oscar."""
