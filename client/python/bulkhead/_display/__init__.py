"""How objects of the package show themselves to people, in terminals and in notebooks."""
