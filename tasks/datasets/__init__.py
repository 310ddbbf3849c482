"""What there is to judge, in every form in which people keep it."""
